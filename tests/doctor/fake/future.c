int future_function(void) { return 42; }
