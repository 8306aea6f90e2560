/* Many endpoints of Cyclone DDS, behind the orders of ../README.md, section "Many endpoints". */
#define _GNU_SOURCE
#include <dds/dds.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "sample.h"
#include "scale.h"

#define SCALE_LINE_MAX 256
/* Longest wait of an order, and longest blocking of a write. */
#define SCALE_PATIENCE_NS INT64_C (60000000000)
#define SCALE_POLL_NS 1000000
#define SCALE_TAKE_AT_ONCE 256

static dds_entity_t scale_participant;
static dds_entity_t *scale_writers, *scale_readers;
static size_t scale_writer_count, scale_reader_count;

static uint64_t scale_clock_ns (clockid_t clock)
{
  struct timespec time;
  clock_gettime (clock, &time);
  return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

static void scale_sleep_ns (long time_ns)
{
  const struct timespec time = { .tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000 };
  nanosleep (&time, NULL);
}

static int scale_fail (const char *reason)
{
  printf ("error %s\n", reason);
  fflush (stdout);
  return 1;
}

static void scale_say_time (void)
{
  printf ("done %" PRIu64 "\n", scale_clock_ns (CLOCK_MONOTONIC));
}

/* Each function returns NULL, or why the order failed. */

static const char *scale_open (uint32_t domain)
{
  static const char config[] =
    "<General><Interfaces><NetworkInterface name=\"lo\" multicast=\"true\"/></Interfaces></General>";
  if (scale_participant != 0)
    return "there is a participant already";
  if (dds_create_domain (domain, config) < 0)
    return "dds_create_domain refused the configuration";
  scale_participant = dds_create_participant (domain, NULL, NULL);
  if (scale_participant < 0)
    return "dds_create_participant failed";
  printf ("done\n");
  return NULL;
}

static const char *scale_create (uint32_t writers, uint32_t readers, uint32_t topics)
{
  const char *problem = NULL;
  if (scale_participant == 0 || scale_writers != NULL)
    return "create is expected once, after open";
  scale_writers = calloc ((size_t) writers * topics + 1, sizeof (*scale_writers));
  scale_readers = calloc ((size_t) readers * topics + 1, sizeof (*scale_readers));
  if (scale_writers == NULL || scale_readers == NULL)
    return "no memory for the endpoints";
  dds_qos_t *qos = dds_create_qos ();
  dds_qset_reliability (qos, DDS_RELIABILITY_RELIABLE, SCALE_PATIENCE_NS);
  dds_qset_durability (qos, DDS_DURABILITY_VOLATILE);
  dds_qset_history (qos, DDS_HISTORY_KEEP_ALL, 1);
  for (uint32_t i = 0; i < topics && problem == NULL; i++) {
    char name[32];
    snprintf (name, sizeof (name), "scale_%" PRIu32, i);
    const dds_entity_t topic = dds_create_topic (scale_participant, &ScaleSample_desc, name, NULL, NULL);
    if (topic < 0)
      problem = "dds_create_topic failed";
    for (uint32_t w = 0; w < writers && problem == NULL; w++)
      if ((scale_writers[scale_writer_count++] = dds_create_writer (scale_participant, topic, qos, NULL)) < 0)
        problem = "dds_create_writer failed";
    for (uint32_t r = 0; r < readers && problem == NULL; r++)
      if ((scale_readers[scale_reader_count++] = dds_create_reader (scale_participant, topic, qos, NULL)) < 0)
        problem = "dds_create_reader failed";
  }
  dds_delete_qos (qos);
  if (problem == NULL)
    printf ("done\n");
  return problem;
}

/* Checks each endpoint until it is complete, and then the next one. */
static const char *scale_match (uint32_t readers, uint32_t writers)
{
  const uint64_t limit = scale_clock_ns (CLOCK_MONOTONIC) + SCALE_PATIENCE_NS;
  size_t writer = 0, reader = 0;
  while (true) {
    dds_publication_matched_status_t published;
    dds_subscription_matched_status_t subscribed;
    while (writer < scale_writer_count
           && dds_get_publication_matched_status (scale_writers[writer], &published) == 0
           && published.current_count >= readers)
      writer++;
    while (reader < scale_reader_count
           && dds_get_subscription_matched_status (scale_readers[reader], &subscribed) == 0
           && subscribed.current_count >= writers)
      reader++;
    if (writer == scale_writer_count && reader == scale_reader_count)
      break;
    if (scale_clock_ns (CLOCK_MONOTONIC) > limit)
      return "endpoints are not matched after 60 s";
    scale_sleep_ns (SCALE_POLL_NS);
  }
  scale_say_time ();
  return NULL;
}

/* Number of samples that were taken; negative after an error. */
static int64_t scale_take_from (dds_entity_t reader)
{
  int64_t valid = 0;
  while (true) {
    void *samples[SCALE_TAKE_AT_ONCE] = { NULL };
    dds_sample_info_t infos[SCALE_TAKE_AT_ONCE];
    const dds_return_t count = dds_take (reader, samples, infos, SCALE_TAKE_AT_ONCE, SCALE_TAKE_AT_ONCE);
    if (count < 0)
      return -1;
    for (dds_return_t i = 0; i < count; i++)
      valid += infos[i].valid_data;
    if (count > 0)
      dds_return_loan (reader, samples, count);
    if (count < SCALE_TAKE_AT_ONCE)
      return valid;
  }
}

static const char *scale_take (uint32_t samples)
{
  const uint64_t limit = scale_clock_ns (CLOCK_MONOTONIC) + SCALE_PATIENCE_NS;
  const char *problem = NULL;
  uint64_t *taken = calloc (scale_reader_count + 1, sizeof (*taken));
  if (taken == NULL)
    return "no memory for the counts";
  size_t incomplete = scale_reader_count;
  while (incomplete > 0 && problem == NULL) {
    incomplete = 0;
    for (size_t i = 0; i < scale_reader_count && problem == NULL; i++) {
      if (taken[i] == samples)
        continue;
      const int64_t more = scale_take_from (scale_readers[i]);
      if (more < 0)
        problem = "dds_take failed";
      else if ((taken[i] += (uint64_t) more) > samples)
        problem = "a reader has received a sample twice";
      else if (taken[i] < samples)
        incomplete++;
    }
    if (incomplete > 0 && problem == NULL) {
      if (scale_clock_ns (CLOCK_MONOTONIC) > limit)
        problem = "readers have not received every sample after 60 s";
      scale_sleep_ns (SCALE_POLL_NS);
    }
  }
  free (taken);
  if (problem == NULL)
    scale_say_time ();
  return problem;
}

static bool scale_write_one (dds_entity_t writer, uint32_t number)
{
  ScaleSample sample;
  memset (&sample, 7, sizeof (sample));
  sample.number = number;
  return dds_write (writer, &sample) == 0;
}

static const char *scale_write (uint32_t samples)
{
  const uint64_t begun = scale_clock_ns (CLOCK_MONOTONIC);
  for (uint32_t number = 0; number < samples; number++)
    for (size_t i = 0; i < scale_writer_count; i++)
      if (!scale_write_one (scale_writers[i], number))
        return "dds_write failed";
  printf ("done %" PRIu64 " %" PRIu64 "\n", begun, scale_clock_ns (CLOCK_MONOTONIC));
  return NULL;
}

static const char *scale_acknowledge (void)
{
  const uint64_t limit = scale_clock_ns (CLOCK_MONOTONIC) + SCALE_PATIENCE_NS;
  for (size_t i = 0; i < scale_writer_count; i++) {
    const uint64_t now = scale_clock_ns (CLOCK_MONOTONIC);
    if (dds_wait_for_acks (scale_writers[i], now < limit ? (dds_duration_t) (limit - now) : 0) != 0)
      return "the readers did not acknowledge everything within 60 s";
  }
  scale_say_time ();
  return NULL;
}

static const char *scale_spend (uint32_t samples, uint32_t pause_us)
{
  if (scale_writer_count == 0)
    return "there is no writer yet";
  const uint64_t process = scale_clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  uint64_t thread = 0;
  for (uint32_t number = 0; number < samples; number++) {
    const uint64_t begun = scale_clock_ns (CLOCK_THREAD_CPUTIME_ID);
    if (!scale_write_one (scale_writers[0], number))
      return "dds_write failed";
    thread += scale_clock_ns (CLOCK_THREAD_CPUTIME_ID) - begun;
    scale_sleep_ns ((long) pause_us * 1000);
  }
  printf ("done %" PRIu64 " %" PRIu64 "\n", thread, scale_clock_ns (CLOCK_PROCESS_CPUTIME_ID) - process);
  return NULL;
}

/* Carries out one order, and answers it unless it fails. */
static const char *scale_carry_out (const char *line)
{
  uint32_t a, b, c;
  char word[8];
  if (strcmp (line, "ready") == 0)
    printf ("done\n");
  else if (sscanf (line, "open %" SCNu32 " %7s", &a, word) == 2)
    return strcmp (word, "udp") == 0 ? scale_open (a) : "Cyclone DDS is measured over UDP only";
  else if (sscanf (line, "create %" SCNu32 " %" SCNu32 " %" SCNu32, &a, &b, &c) == 3)
    return scale_create (a, b, c);
  else if (sscanf (line, "match %" SCNu32 " %" SCNu32, &a, &b) == 2)
    return scale_match (a, b);
  else if (sscanf (line, "path %" SCNu32, &a) == 1)
    printf ("done\n");
  else if (sscanf (line, "take %" SCNu32, &a) == 1)
    return scale_take (a);
  else if (sscanf (line, "write %" SCNu32, &a) == 1)
    return scale_write (a);
  else if (strcmp (line, "acknowledge") == 0)
    return scale_acknowledge ();
  else if (sscanf (line, "spend %" SCNu32 " %" SCNu32, &a, &b) == 2)
    return scale_spend (a, b);
  else
    return "the line is no order";
  return NULL;
}

int scale_run (void)
{
  char line[SCALE_LINE_MAX];
  /* The end of the starter ends a wait, too. There is nothing to clean up. */
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  signal (SIGTERM, SIG_DFL);
  while (fgets (line, sizeof (line), stdin) != NULL) {
    line[strcspn (line, "\n")] = '\0';
    const char *problem = scale_carry_out (line);
    if (problem != NULL)
      return scale_fail (problem);
    fflush (stdout);
  }
  /* Deleting thousands of endpoints takes seconds and is not measured. */
  fflush (stdout);
  _exit (0);
}
