"""Changes of what runs that would make room for who waits. They are found and shown, not carried out."""
