"""Web Push: what people are told on their devices, decided and worded when it is sent. A hint beside the log (L5)."""
