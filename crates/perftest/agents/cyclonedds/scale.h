#ifndef PERFTEST_SCALE_H
#define PERFTEST_SCALE_H

/* Takes part in a row of `perftest scale` until stdin ends; returns the exit status. */
int scale_run (void);

#endif
