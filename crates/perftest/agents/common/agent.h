/* What the C and C++ peers share: the protocol of ../README.md on stdin and stdout, and the four roles.
   A peer implements `Peer`, hands every sample it takes to `agent_sample`, and calls `agent_run` from `main`. */
#ifndef PERFTEST_AGENT_H
#define PERFTEST_AGENT_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define AGENT_LINE_MAX 1024
#define AGENT_SIZE_MIN 28u
#define AGENT_SIZE_MAX (64u << 20)
/* Discovery, the first answer, the last acknowledgement, and a write that finds no room may each take this long. */
#define AGENT_PATIENCE_MS 10000
/* A ping without an answer is given up after this long, and the time its octets take. */
#define AGENT_ANSWER_MS 500
/* A subscriber that was asked to stop reports after this long without a sample, and the time the octets of one take. */
#define AGENT_SILENCE_MS 20
/* At these rates on a busy machine; an answer goes both ways, and is waited for no longer than it takes. */
#define AGENT_OCTETS_PER_MS 65536u
#define AGENT_ANSWER_OCTETS_PER_MS 8192u
/* A publisher sends at least so many: two that are taken together give no rate. */
#define AGENT_SAMPLES_MIN 8
/* A process that was asked to terminate has this long to delete its entities. */
#define AGENT_TERMINATE_S 20

typedef enum { ROLE_PING, ROLE_PONG, ROLE_PUB, ROLE_SUB } AgentRole;
typedef enum { WAIT_LISTENER, WAIT_WAITSET, WAIT_POLL } AgentWait;
typedef enum { TRANSPORT_UDP, TRANSPORT_TCP, TRANSPORT_SHM, TRANSPORT_DATA_SHARING } AgentTransport;

typedef struct {
  AgentRole role;
  AgentWait wait;
  AgentTransport transport;
  bool reliable;
  bool batch;
  bool async;
  uint32_t size;    /* octets of the serialized sample without its encapsulation header */
  uint32_t domain;
  uint64_t rate;    /* samples per second, 0: as many as will go */
  uint64_t duration_ms;
  uint64_t warmup_ms;
  int core;         /* -1: not pinned */
  char security[256];  /* folder with the documents of DDS Security, below pub and sub; empty: no security */
} Setup;

typedef struct {
  const char *name;
  const char *(*version) (void);
  /* Why this peer cannot do what is asked for; NULL when it can. */
  const char *(*unsupported) (const Setup *setup);
  /* Creates the entities; returns why not, or NULL. Writers of ping and pub write to the topic `perftest_there`,
     those of pong to `perftest_back`. With WAIT_LISTENER, calls `agent_on_data` from the listener. */
  const char *(*open) (const Setup *setup);
  /* What was set beyond the defaults: no spaces. */
  const char *(*settings) (const Setup *setup);
  bool (*is_matched) (void);
  /* Writes a sample of `setup.size` octets that carries `seq`; waits for room when reliable. */
  bool (*write) (uint64_t seq);
  /* Sends what a batch still holds. */
  void (*flush) (void);
  bool (*wait_acknowledged) (int timeout_ms);
  /* Waits on a WaitSet until there are samples. */
  void (*wait) (int timeout_ms);
  /* Takes what is there and hands each sample to `agent_sample`. */
  void (*take) (void);
  void (*close) (void);
} Peer;

/* Round trips in log-linear buckets, exact below 2048 ns and to 1/1024 above. */
#define BUCKET_BITS 10
#define BUCKET_COUNT ((64 - BUCKET_BITS) << BUCKET_BITS)

static const Peer *agent_peer;
static Setup agent_setup;
static int agent_stop;
/* Set by the main thread alone while there are entities, which it deletes before it leaves, however that comes. */
static bool agent_is_open;
static pthread_t agent_main;
static pthread_mutex_t agent_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t agent_done = PTHREAD_COND_INITIALIZER;

static struct {
  uint64_t sent, received, unanswered, misfits, next_seq, out_of_order;
  uint64_t expected;     /* of the answer under way */
  uint64_t sent_at, answered_at;
  uint64_t first_at, last_at;
  uint64_t record_from, end_at;
  uint64_t schedule_at;  /* when sample 0 of a schedule is due; 0 without one */
  bool answered, has_begun, is_over, has_failed;
  uint64_t buckets[BUCKET_COUNT];
} agent_state;

/* Ping and pong keep the last sample only. A listener runs on the thread that receives acknowledgements: were it to wait
   for room in a full history, it would keep from itself what makes room. No peer needs what is replaced, since the next
   sample is written when that one was answered or given up. */
static inline bool has_echo (const Setup *setup)
{
  return setup->role == ROLE_PING || setup->role == ROLE_PONG;
}

/* How long to wait for a ping's answer. */
static inline int agent_answer_ms (void)
{
  return AGENT_ANSWER_MS + (int) (agent_setup.size / AGENT_ANSWER_OCTETS_PER_MS);
}

static inline int agent_silence_ms (void)
{
  return AGENT_SILENCE_MS + (int) (agent_setup.size / AGENT_OCTETS_PER_MS);
}

static inline uint64_t agent_now (void)
{
  struct timespec time;
  clock_gettime (CLOCK_MONOTONIC, &time);
  return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

static inline void agent_sleep_until (uint64_t at)
{
  struct timespec time;
  time.tv_sec = (time_t) (at / 1000000000u);
  time.tv_nsec = (long) (at % 1000000000u);
  while (clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
}

static inline void agent_say (const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  vprintf (format, arguments);
  va_end (arguments);
  putchar ('\n');
  fflush (stdout);
}

/* What a middleware has in the system, such as shared memory, goes with its entities only. */
static inline void agent_leave (int status)
{
  if (agent_is_open && pthread_equal (pthread_self (), agent_main)) {
    agent_is_open = false;
    agent_peer->close ();
  }
  exit (status);
}

static inline void agent_fail (const char *what)
{
  agent_say ("error %s", what);
  agent_leave (1);
}

static inline bool agent_is_stopped (void)
{
  return __atomic_load_n (&agent_stop, __ATOMIC_ACQUIRE) != 0;
}

/* Ends what is going on, and the process if that does not end. */
static inline void agent_on_terminate (int unused)
{
  (void) unused;
  __atomic_store_n (&agent_stop, 1, __ATOMIC_RELEASE);
  alarm (AGENT_TERMINATE_S);
}

static inline uint32_t bucket_of (uint64_t value)
{
  if (value < (2u << BUCKET_BITS))
    return (uint32_t) value;
  const uint32_t shift = 63u - (uint32_t) __builtin_clzll (value) - BUCKET_BITS;
  return (shift << BUCKET_BITS) + (uint32_t) (value >> shift);
}

static inline uint64_t bucket_start (uint32_t bucket)
{
  if (bucket < (2u << BUCKET_BITS))
    return bucket;
  const uint32_t shift = (bucket >> BUCKET_BITS) - 1;
  return (uint64_t) (bucket - (shift << BUCKET_BITS)) << shift;
}

/* When a sample of the schedule is due. */
static inline uint64_t due_at (uint64_t seq)
{
  return agent_state.schedule_at + (uint64_t) ((double) seq * 1e9 / (double) agent_setup.rate);
}

/* One sample, as the peer took it: `octets` without the encapsulation header. */
static inline void agent_sample (uint64_t seq, uint64_t octets)
{
  if (octets != agent_setup.size) {
    agent_state.misfits++;
    return;
  }
  switch (agent_setup.role) {
  case ROLE_PING:
    if (seq == agent_state.expected && !agent_state.answered) {
      agent_state.answered_at = agent_now ();
      agent_state.answered = true;
    }
    break;
  case ROLE_PONG:
    agent_state.received++;
    if (!agent_peer->write (seq))
      agent_state.has_failed = true;
    break;
  case ROLE_SUB:
    agent_state.last_at = agent_now ();
    if (agent_state.received++ == 0)
      agent_state.first_at = agent_state.last_at;
    if (agent_setup.rate != 0) {
      const uint64_t due = due_at (seq);
      agent_state.buckets[bucket_of (agent_state.last_at > due ? agent_state.last_at - due : 0)]++;
    }
    if (seq < agent_state.next_seq)
      agent_state.out_of_order++;
    else
      agent_state.next_seq = seq + 1;
    break;
  case ROLE_PUB:
    break;
  }
}

/* Of samples that take longer than a short series, the first after the warm-up counts all the same. */
static inline bool ping_is_over (uint64_t at)
{
  const uint64_t patience = (uint64_t) AGENT_PATIENCE_MS * 1000000u;
  return at >= agent_state.end_at
         && (!agent_state.has_begun || agent_state.received > 0 || at >= agent_state.end_at + patience);
}

/* Sends the next ping, or ends the series. */
static inline void ping_next (void)
{
  agent_state.answered = false;
  agent_state.expected++;
  agent_state.sent_at = agent_now ();
  if (ping_is_over (agent_state.sent_at) || agent_is_stopped ()) {
    agent_state.is_over = true;
    return;
  }
  agent_state.sent++;
  if (!agent_peer->write (agent_state.expected)) {
    agent_state.has_failed = true;
    agent_state.is_over = true;
  }
}

/* The time of the series, which begins with its warm-up when the first answer has come. */
static inline void ping_begin (uint64_t at)
{
  agent_state.record_from = at + agent_setup.warmup_ms * 1000000u;
  agent_state.end_at = agent_state.record_from + agent_setup.duration_ms * 1000000u;
  agent_state.has_begun = true;
}

static inline void ping_record (void)
{
  if (!agent_state.has_begun)
    ping_begin (agent_state.answered_at);
  if (agent_state.sent_at < agent_state.record_from)
    return;
  agent_state.received++;
  agent_state.buckets[bucket_of (agent_state.answered_at - agent_state.sent_at)]++;
}

/* From the listener: there may be samples. */
static inline void agent_on_data (void)
{
  pthread_mutex_lock (&agent_lock);
  agent_peer->take ();
  if (agent_setup.role == ROLE_PING && agent_state.answered && !agent_state.is_over) {
    ping_record ();
    ping_next ();
    if (agent_state.is_over)
      pthread_cond_signal (&agent_done);
  }
  pthread_mutex_unlock (&agent_lock);
}

static inline void ping_with_listener (void)
{
  pthread_mutex_lock (&agent_lock);
  ping_next ();
  while (!agent_state.is_over) {
    const uint64_t before = agent_state.expected;
    struct timespec limit;
    clock_gettime (CLOCK_REALTIME, &limit);
    const uint64_t nsec = (uint64_t) limit.tv_nsec + (uint64_t) agent_answer_ms () * 1000000u;
    limit.tv_sec += (time_t) (nsec / 1000000000u);
    limit.tv_nsec = (long) (nsec % 1000000000u);
    if (pthread_cond_timedwait (&agent_done, &agent_lock, &limit) == ETIMEDOUT && agent_state.expected == before) {
      agent_state.unanswered++;
      ping_next ();
    }
  }
  pthread_mutex_unlock (&agent_lock);
}

static inline void ping_in_a_loop (void)
{
  ping_next ();
  while (!agent_state.is_over) {
    const uint64_t limit = agent_state.sent_at + (uint64_t) agent_answer_ms () * 1000000u;
    while (!agent_state.answered && agent_now () < limit) {
      if (agent_setup.wait == WAIT_WAITSET)
        agent_peer->wait (agent_answer_ms ());
      agent_peer->take ();
    }
    if (agent_state.answered)
      ping_record ();
    else
      agent_state.unanswered++;
    ping_next ();
  }
}

static inline void publish (void)
{
  const uint64_t start = agent_setup.rate != 0 ? agent_state.schedule_at : agent_now ();
  const uint64_t end = start + agent_setup.duration_ms * 1000000u;
  agent_state.first_at = start;
  const uint64_t looks_every = agent_setup.size < AGENT_OCTETS_PER_MS ? 8 : 1;
  for (uint64_t seq = 0; !agent_is_stopped (); seq++) {
    if (agent_setup.rate != 0) {
      const uint64_t due = due_at (seq);
      if (due >= end)
        break;
      agent_sleep_until (due);
    } else if (seq >= AGENT_SAMPLES_MIN && seq % looks_every == 0 && agent_now () >= end) {
      break;
    }
    if (!agent_peer->write (seq)) {
      agent_state.has_failed = true;
      break;
    }
    agent_state.sent++;
  }
  agent_peer->flush ();
  agent_state.last_at = agent_now ();
}

static inline void *agent_watch_for_stop (void *unused)
{
  char line[AGENT_LINE_MAX];
  (void) unused;
  /* The end of the input is a stop too: the process that started this one is gone. */
  while (fgets (line, sizeof (line), stdin) != NULL && strcmp (line, "stop\n") != 0)
    agent_fail ("only stop is expected after start");
  __atomic_store_n (&agent_stop, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* Pong and sub: until `stop`. */
static inline void respond (void)
{
  pthread_t watcher;
  if (pthread_create (&watcher, NULL, agent_watch_for_stop, NULL) != 0)
    agent_fail ("pthread_create failed");
  if (agent_setup.wait != WAIT_LISTENER)
    while (!agent_is_stopped ()) {
      if (agent_setup.wait == WAIT_WAITSET)
        agent_peer->wait (agent_silence_ms ());
      agent_peer->take ();
    }
  pthread_join (watcher, NULL);
  /* What is still on its way, until nothing comes any more. */
  uint64_t before, after = UINT64_MAX;
  do {
    before = after;
    agent_sleep_until (agent_now () + (uint64_t) agent_silence_ms () * 1000000u);
    pthread_mutex_lock (&agent_lock);
    /* A middleware may hold a lock of its own while it calls the listener: it alone takes then. */
    if (agent_setup.wait != WAIT_LISTENER)
      agent_peer->take ();
    after = agent_state.received;
    pthread_mutex_unlock (&agent_lock);
  } while (after != before);
}

static inline uint64_t agent_cpu_ns (void)
{
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  const int64_t us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  return (uint64_t) us * 1000u;
}

static inline unsigned long long agent_peak_rss_bytes (void)
{
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  return (unsigned long long) usage.ru_maxrss * 1024u;
}

/* Ends a result. */
static inline void report_buckets (void)
{
  const char *separator = "";
  for (uint32_t bucket = 0; bucket < BUCKET_COUNT; bucket++)
    if (agent_state.buckets[bucket] != 0) {
      printf ("%s%llu:%llu", separator, (unsigned long long) bucket_start (bucket),
              (unsigned long long) agent_state.buckets[bucket]);
      separator = ",";
    }
  agent_say ("");
}

static inline void agent_report (uint64_t cpu_ns)
{
  const uint64_t lost = agent_state.next_seq > agent_state.received ? agent_state.next_seq - agent_state.received : 0;
  if (agent_state.has_failed)
    agent_fail ("a sample could not be written in time");
  if (agent_state.misfits != 0)
    agent_fail ("samples of another size than set up were received");
  switch (agent_setup.role) {
  case ROLE_PING:
    printf ("result role=ping sent=%llu received=%llu unanswered=%llu cpu_ns=%llu peak_rss_bytes=%llu round_trip_ns=",
            (unsigned long long) agent_state.sent, (unsigned long long) agent_state.received,
            (unsigned long long) agent_state.unanswered, (unsigned long long) cpu_ns, agent_peak_rss_bytes ());
    report_buckets ();
    break;
  case ROLE_PONG:
    agent_say ("result role=pong received=%llu cpu_ns=%llu peak_rss_bytes=%llu", (unsigned long long) agent_state.received,
               (unsigned long long) cpu_ns, agent_peak_rss_bytes ());
    break;
  case ROLE_PUB:
    agent_say ("result role=pub sent=%llu duration_ns=%llu cpu_ns=%llu peak_rss_bytes=%llu", (unsigned long long) agent_state.sent,
               (unsigned long long) (agent_state.last_at - agent_state.first_at), (unsigned long long) cpu_ns, agent_peak_rss_bytes ());
    break;
  case ROLE_SUB:
    printf ("result role=sub received=%llu lost=%llu out_of_order=%llu duration_ns=%llu cpu_ns=%llu peak_rss_bytes=%llu scheduled_ns=",
            (unsigned long long) agent_state.received, (unsigned long long) lost,
            (unsigned long long) agent_state.out_of_order,
            (unsigned long long) (agent_state.last_at - agent_state.first_at), (unsigned long long) cpu_ns, agent_peak_rss_bytes ());
    report_buckets ();
    break;
  }
}

static inline bool parse_number (const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
  char *end = NULL;
  if (*text < '0' || *text > '9')
    return false;
  errno = 0;
  *value = strtoull (text, &end, 10);
  return errno == 0 && *end == '\0' && *value >= least && *value <= most;
}

static inline bool parse_choice (const char *text, const char *const *choices, int *value)
{
  for (int i = 0; choices[i] != NULL; i++)
    if (strcmp (text, choices[i]) == 0) {
      *value = i;
      return true;
    }
  return false;
}

/* One `key=value` of the setup; false when the key is unknown or the value no good. */
static inline bool parse_setting (Setup *setup, const char *key, const char *value)
{
  static const char *const roles[] = { "ping", "pong", "pub", "sub", NULL };
  static const char *const waits[] = { "listener", "waitset", "poll", NULL };
  static const char *const transports[] = { "udp", "tcp", "shm", "data-sharing", NULL };
  static const char *const reliabilities[] = { "best-effort", "reliable", NULL };
  static const char *const modes[] = { "sync", "async", NULL };
  static const char *const switches[] = { "off", "on", NULL };
  int choice = 0;
  uint64_t number = 0;
  if (strcmp (key, "role") == 0 && parse_choice (value, roles, &choice))
    setup->role = (AgentRole) choice;
  else if (strcmp (key, "wait") == 0 && parse_choice (value, waits, &choice))
    setup->wait = (AgentWait) choice;
  else if (strcmp (key, "transport") == 0 && parse_choice (value, transports, &choice))
    setup->transport = (AgentTransport) choice;
  else if (strcmp (key, "reliability") == 0 && parse_choice (value, reliabilities, &choice))
    setup->reliable = choice == 1;
  else if (strcmp (key, "publish") == 0 && parse_choice (value, modes, &choice))
    setup->async = choice == 1;
  else if (strcmp (key, "batch") == 0 && parse_choice (value, switches, &choice))
    setup->batch = choice == 1;
  else if (strcmp (key, "size") == 0 && parse_number (value, AGENT_SIZE_MIN, AGENT_SIZE_MAX, &number))
    setup->size = (uint32_t) number;
  else if (strcmp (key, "domain") == 0 && parse_number (value, 0, 232, &number))
    setup->domain = (uint32_t) number;
  else if (strcmp (key, "rate") == 0 && parse_number (value, 0, 1000000000u, &number))
    setup->rate = number;
  else if (strcmp (key, "duration_ms") == 0 && parse_number (value, 1, 3600000u, &number))
    setup->duration_ms = number;
  else if (strcmp (key, "warmup_ms") == 0 && parse_number (value, 0, 60000u, &number))
    setup->warmup_ms = number;
  else if (strcmp (key, "core") == 0 && strcmp (value, "none") == 0)
    setup->core = -1;
  else if (strcmp (key, "core") == 0 && parse_number (value, 0, CPU_SETSIZE - 1, &number))
    setup->core = (int) number;
  else if (strcmp (key, "security") == 0 && strlen (value) < sizeof (setup->security))
    strcpy (setup->security, value);
  else
    return false;
  return true;
}

/* Reads what follows `setup` or `about`; whether it was the latter. Every key must be there once: a forgotten one shall
   not silently mean something. */
static inline bool parse_setup (char *line, Setup *setup)
{
  static const char *const keys[] = { "role", "size", "reliability", "wait", "transport", "publish", "batch",
                                      "rate", "duration_ms", "warmup_ms", "domain", "core", "security", NULL };
  unsigned seen = 0, all = 0;
  char text[AGENT_LINE_MAX + 64];
  char *rest = NULL;
  char *word = strtok_r (line, " \n", &rest);
  const bool is_about = word != NULL && strcmp (word, "about") == 0;
  if (!is_about && (word == NULL || strcmp (word, "setup") != 0))
    agent_fail ("setup or about is expected first");
  while ((word = strtok_r (NULL, " \n", &rest)) != NULL) {
    char *value = strchr (word, '=');
    int key = 0;
    if (value != NULL)
      *value++ = '\0';
    if (value == NULL || !parse_choice (word, keys, &key) || !parse_setting (setup, word, value)) {
      snprintf (text, sizeof (text), "%s: unknown key or bad value", word);
      agent_fail (text);
    }
    if ((seen & (1u << key)) != 0) {
      snprintf (text, sizeof (text), "%s is given twice", word);
      agent_fail (text);
    }
    seen |= 1u << key;
  }
  for (int key = 0; keys[key] != NULL; key++) {
    all |= 1u << key;
    /* Absent without security. */
    if ((seen & (1u << key)) == 0 && strcmp (keys[key], "security") != 0) {
      snprintf (text, sizeof (text), "%s is missing", keys[key]);
      agent_fail (text);
    }
  }
  return is_about;
}

static inline void pin_to_core (int core)
{
  cpu_set_t set;
  if (core < 0)
    return;
  CPU_ZERO (&set);
  CPU_SET (core, &set);
  if (sched_setaffinity (0, sizeof (set), &set) != 0)
    agent_fail ("sched_setaffinity refused the core");
}

static inline void wait_until_matched (void)
{
  const uint64_t limit = agent_now () + (uint64_t) AGENT_PATIENCE_MS * 1000000u;
  while (!agent_peer->is_matched ()) {
    if (agent_is_stopped ())
      agent_fail ("it was asked to terminate");
    if (agent_now () > limit)
      agent_fail ("the partner was not discovered within 10 s");
    agent_sleep_until (agent_now () + 2000000u);
  }
}

static inline void await_stop (void)
{
  char line[AGENT_LINE_MAX];
  if (fgets (line, sizeof (line), stdin) == NULL)
    agent_leave (1);
  line[strcspn (line, "\n")] = '\0';
  if (strcmp (line, "stop") != 0)
    agent_fail ("stop is expected after result");
}

/* `start`, and on a schedule when it begins, of the monotonic clock. */
static inline void await_start (void)
{
  const bool is_scheduled = agent_setup.rate != 0;
  char line[AGENT_LINE_MAX];
  if (fgets (line, sizeof (line), stdin) == NULL)
    agent_leave (1);
  line[strcspn (line, "\n")] = '\0';
  if (!is_scheduled && strcmp (line, "start") == 0)
    return;
  if (!is_scheduled || strncmp (line, "start ", 6) != 0 || !parse_number (line + 6, 1, INT64_MAX, &agent_state.schedule_at))
    agent_fail ("start is expected after ready, on a schedule with its beginning");
}

static inline void take_part (void)
{
  const uint64_t cpu_ns = agent_cpu_ns ();
  agent_state.end_at = agent_now () + (uint64_t) AGENT_PATIENCE_MS * 1000000u;
  const bool responds = agent_setup.role == ROLE_PONG || agent_setup.role == ROLE_SUB;
  if (responds)
    respond ();
  else if (agent_setup.role == ROLE_PUB)
    publish ();
  else if (agent_setup.wait == WAIT_LISTENER)
    ping_with_listener ();
  else
    ping_in_a_loop ();
  const uint64_t used_ns = agent_cpu_ns () - cpu_ns;
  if (agent_setup.role == ROLE_PUB && agent_setup.reliable && !agent_peer->wait_acknowledged (AGENT_PATIENCE_MS))
    agent_fail ("the subscriber did not acknowledge everything within 10 s");
  agent_report (used_ns);
  if (!responds)
    await_stop ();
}

/* The whole life of a peer. */
static inline int agent_run (const Peer *peer)
{
  char line[AGENT_LINE_MAX];
  agent_peer = peer;
  agent_setup.core = -1;
  agent_main = pthread_self ();
  struct sigaction terminate;
  memset (&terminate, 0, sizeof (terminate));
  terminate.sa_handler = agent_on_terminate;
  terminate.sa_flags = SA_RESTART;
  sigaction (SIGTERM, &terminate, NULL);
  /* No process would stop a peer whose parent has died. */
  prctl (PR_SET_PDEATHSIG, SIGTERM);
  if (fgets (line, sizeof (line), stdin) == NULL)
    return 1;
  if (parse_setup (line, &agent_setup)) {
    agent_say ("about peer=%s version=%s settings=%s", peer->name, peer->version (), peer->settings (&agent_setup));
    return 0;
  }
  const char *reason = peer->unsupported (&agent_setup);
  if (reason == NULL && agent_setup.role == ROLE_PING && agent_setup.rate != 0)
    reason = "pings follow one another; they have no rate";
  if (reason != NULL) {
    agent_say ("unsupported %s", reason);
    return 0;
  }
  pin_to_core (agent_setup.core);
  reason = peer->open (&agent_setup);
  if (reason != NULL)
    agent_fail (reason);
  agent_is_open = true;
  wait_until_matched ();
  agent_say ("ready");
  await_start ();
  take_part ();
  agent_leave (0);
  return 0;
}

#endif
