int future_function(void);
int needy_function(void) { return future_function() + 1; }
