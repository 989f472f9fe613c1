"""Many small networks trained as one batched tensor program (the fleet)."""
