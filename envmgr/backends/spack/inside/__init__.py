"""Code that runs inside of Spack."""
