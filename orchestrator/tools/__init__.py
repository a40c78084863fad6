"""Tools that are no Python functions: commands and MCP servers."""
