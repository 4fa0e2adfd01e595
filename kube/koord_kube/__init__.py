"""The Kubernetes API: ``resources`` names what there is, ``api`` says what can be asked."""
