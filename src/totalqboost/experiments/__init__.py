"""The paper's experiments: strategies, runner, and what follows from their rows."""
