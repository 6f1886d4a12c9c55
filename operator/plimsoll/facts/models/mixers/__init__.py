"""What mixes tokens in a layer: attention, latent attention, recurrent states."""
