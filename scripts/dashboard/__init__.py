"""The Grafana dashboard of the chart, as tables of panels and the program that writes its JSON."""
