"""The pages of the dashboard, for a browser (NiceGUI)."""
