"""What figures are made of: panels, legends, styles and data."""
