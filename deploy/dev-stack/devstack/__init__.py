"""What `dev-stack` is made of. Standard library only: an empty machine has nothing else."""
