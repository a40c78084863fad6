from orchestrator.dialects.same import SameEvents


class ChatToMessages(SameEvents): ...
