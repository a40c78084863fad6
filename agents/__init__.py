"""What an agent is: messages, a control loop, tools and budgets, and the ports to everything outside."""
