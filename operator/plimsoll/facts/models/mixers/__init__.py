"""The mixers of tokens in a layer: attention, latent attention, recurrent states."""
