/* What the C and C++ peers share: one command line as words, answers as JSON, and the payload that proves itself.
   The protocol is described in interop/README.md. */
#ifndef PEREGRINE_INTEROP_PROTOCOL_H
#define PEREGRINE_INTEROP_PROTOCOL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORDS 32
#define MAX_LINE 4096
#define MAX_ENTITIES 64
#define MAX_NAME 64

/* A prime, so that no displacement by a power of two, and hardly one by a fragment, goes unseen. */
#define PAYLOAD_PERIOD 251u

typedef struct {
  char text[MAX_LINE];
  char *words[MAX_WORDS];
  int count;
} Command;

/* Splits the line at spaces; false when it has more words than any command. */
static inline bool command_parse (Command *command, const char *line)
{
  snprintf (command->text, sizeof (command->text), "%s", line);
  command->count = 0;
  char *rest = NULL;
  for (char *word = strtok_r (command->text, " \n", &rest); word != NULL; word = strtok_r (NULL, " \n", &rest)) {
    if (command->count == MAX_WORDS)
      return false;
    command->words[command->count++] = word;
  }
  return true;
}

static inline const char *command_word (const Command *command, int index)
{
  return index < command->count ? command->words[index] : "";
}

static inline uint64_t command_number (const Command *command, int index)
{
  return strtoull (command_word (command, index), NULL, 10);
}

/* The value of `name=value`, or NULL. */
static inline const char *command_option (const Command *command, const char *name)
{
  const size_t length = strlen (name);
  for (int i = 1; i < command->count; i++)
    if (strncmp (command->words[i], name, length) == 0 && command->words[i][length] == '=')
      return command->words[i] + length + 1;
  return NULL;
}

static inline bool command_option_is (const Command *command, const char *name, const char *value)
{
  const char *given = command_option (command, name);
  return given != NULL && strcmp (given, value) == 0;
}

static inline int64_t command_option_number (const Command *command, const char *name, int64_t absent)
{
  const char *given = command_option (command, name);
  return given != NULL ? strtoll (given, NULL, 10) : absent;
}

static inline void answer_ok (void)
{
  puts ("{\"ok\":true}");
  fflush (stdout);
}

/* The message must not need escaping in JSON. */
__attribute__ ((format (printf, 1, 2))) static inline void answer_error (const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  fputs ("{\"ok\":false,\"error\":\"", stdout);
  vprintf (format, arguments);
  puts ("\"}");
  fflush (stdout);
  va_end (arguments);
}

/* The statuses of a writer or reader, in the fields of the answer to `status` and `wait`. */
typedef struct {
  uint32_t matched;
  uint32_t matched_total;
  uint32_t incompatible_qos;
  uint32_t incompatible_policy;
  uint32_t alive;
  uint32_t not_alive;
  uint32_t deadline_missed;
  uint32_t liveliness_lost;
  uint32_t sample_lost;
  uint32_t stalled; /* Peregrine alone reports stalls */
} Status;

static inline bool status_field (const Status *status, const char *name, uint32_t *value)
{
  const struct { const char *name; uint32_t value; } fields[] = {
    { "matched", status->matched },
    { "matched_total", status->matched_total },
    { "incompatible_qos", status->incompatible_qos },
    { "incompatible_policy", status->incompatible_policy },
    { "alive", status->alive },
    { "not_alive", status->not_alive },
    { "deadline_missed", status->deadline_missed },
    { "liveliness_lost", status->liveliness_lost },
    { "sample_lost", status->sample_lost },
    { "stalled", status->stalled },
  };
  for (size_t i = 0; i < sizeof (fields) / sizeof (fields[0]); i++)
    if (strcmp (fields[i].name, name) == 0) {
      *value = fields[i].value;
      return true;
    }
  return false;
}

/* Whether `FIELD OP VALUE` of a `wait` command holds; an unknown field or operator never does. */
static inline bool status_holds (const Status *status, const char *field, const char *op, uint32_t value)
{
  uint32_t now;
  if (!status_field (status, field, &now))
    return false;
  return strcmp (op, "=") == 0 ? now == value : strcmp (op, ">=") == 0 && now >= value;
}

static inline void answer_status (const Status *status, bool reached)
{
  printf ("{\"ok\":true,\"reached\":%s,\"matched\":%u,\"matched_total\":%u,\"incompatible_qos\":%u,"
          "\"incompatible_policy\":%u,\"alive\":%u,\"not_alive\":%u,\"deadline_missed\":%u,\"liveliness_lost\":%u,"
          "\"sample_lost\":%u,\"stalled\":%u}\n",
          reached ? "true" : "false", status->matched, status->matched_total, status->incompatible_qos,
          status->incompatible_policy, status->alive, status->not_alive, status->deadline_missed,
          status->liveliness_lost, status->sample_lost, status->stalled);
  fflush (stdout);
}

static inline uint64_t clock_ns (clockid_t clock)
{
  struct timespec now;
  clock_gettime (clock, &now);
  return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* One sample of the answer to `take`, which opens and closes the list around it. Call it right after the take, because
   it reads the time. */
static inline void answer_sample (bool first, uint32_t key, uint32_t seq, size_t size, bool intact, bool valid,
                                  const char *instance)
{
  printf ("%s{\"key\":%u,\"seq\":%u,\"size\":%zu,\"intact\":%s,\"valid\":%s,\"instance\":\"%s\",\"taken_ns\":%llu}",
          first ? "" : ",", key, seq, size, intact ? "true" : "false", valid ? "true" : "false", instance,
          (unsigned long long) clock_ns (CLOCK_REALTIME));
}

static inline void payload_fill (uint8_t *data, size_t size, uint32_t seq)
{
  for (size_t i = 0; i < size; i++)
    data[i] = (uint8_t) ((seq + i) % PAYLOAD_PERIOD);
}

static inline bool payload_is_intact (const uint8_t *data, size_t size, uint32_t seq)
{
  for (size_t i = 0; i < size; i++)
    if (data[i] != (uint8_t) ((seq + i) % PAYLOAD_PERIOD))
      return false;
  return true;
}

static inline void pause_us (uint64_t us)
{
  const struct timespec duration = { (time_t) (us / 1000000u), (long) (us % 1000000u) * 1000 };
  nanosleep (&duration, NULL);
}

#endif
