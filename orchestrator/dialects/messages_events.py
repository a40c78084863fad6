from orchestrator.dialects.same import SameEvents


class MessagesToChat(SameEvents): ...
