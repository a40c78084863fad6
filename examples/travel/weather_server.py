"""An MCP server with one tool, on its standard streams. Needs the extra `mcp`."""

from mcp.server import MCPServer

server = MCPServer("weather", log_level="ERROR")


@server.tool()
def forecast(city: str, days: int = 3) -> str:
    """Forecasts a city's weather for some days."""
    return f"{city}, the next {days} days: clear, 19 degrees"


if __name__ == "__main__":
    server.run("stdio")
