"""Where rows come from, for every task: the hub, a local folder or the packaged sample; and what a row must hold."""
