"""What of whose memory is protected, and when it is held back."""
