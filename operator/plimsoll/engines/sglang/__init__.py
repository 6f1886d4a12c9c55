"""SGLang: everything that is known of this engine alone."""
