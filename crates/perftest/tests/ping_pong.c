/* An independent measurement of what perftest calls raw UDP: half the round trip of one datagram at a time on loopback,
 * between two processes. Prints the median in nanoseconds.
 *
 *     ping_pong <octets of payload> <milliseconds> <core of one process> <core of the other>
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LEN = 65507, MAX_TRIPS = 1 << 22, WARM_UP = 200 };

static char data[MAX_LEN];
static uint64_t trips[MAX_TRIPS];

static void check(int ok, const char *what) {
    if (!ok) { perror(what); exit(1); }
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 5 || atoi(argv[1]) < 1 || atoi(argv[1]) > MAX_LEN) {
        fprintf(stderr, "usage: ping_pong <octets> <milliseconds> <core> <core>\n");
        return 2;
    }
    size_t len = (size_t)atoi(argv[1]), count = 0;
    int ends[2];
    struct sockaddr_in at[2];
    socklen_t size = sizeof at[0];
    struct timeval patience = { .tv_sec = 5 };
    for (int i = 0; i < 2; i++) {
        at[i] = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        check((ends[i] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0, "socket");
        check(bind(ends[i], (struct sockaddr *)&at[i], size) == 0, "bind");
        check(getsockname(ends[i], (struct sockaddr *)&at[i], &size) == 0, "getsockname");
        setsockopt(ends[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    for (int i = 0; i < 2; i++) check(connect(ends[i], (struct sockaddr *)&at[1 - i], size) == 0, "connect");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(atoi(argv[4]));
        for (ssize_t got; (got = recv(ends[1], data, sizeof data, 0)) > 0;) send(ends[1], data, (size_t)got, 0);
        return 0;
    }
    pin(atoi(argv[3]));
    uint64_t end = UINT64_MAX;
    for (int i = 0; now_ns() < end && count < MAX_TRIPS; i++) {
        uint64_t start = now_ns();
        if (i == WARM_UP) end = start + (uint64_t)atoi(argv[2]) * 1000000u;
        check(send(ends[0], data, len, 0) == (ssize_t)len, "send");
        check(recv(ends[0], data, sizeof data, 0) == (ssize_t)len, "recv");
        if (i >= WARM_UP) trips[count++] = now_ns() - start;
    }
    kill(child, SIGKILL);
    qsort(trips, count, sizeof trips[0], by_value);
    printf("%llu\n", (unsigned long long)trips[count / 2] / 2);
    return 0;
}
