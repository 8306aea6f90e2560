/* Cyclone DDS 0.10 as an interoperability peer. The protocol on stdin and stdout is described in interop/README.md. */
#define _GNU_SOURCE
#include <dds/dds.h>
#include <dds/version.h>

#include "protocol.h"
#include "types.h"

/* The three types have one layout in C, so one set of handlers serves them all. */
_Static_assert (sizeof (Sample) == sizeof (KeyedSample) && sizeof (Sample) == sizeof (AppendableSample), "layout");

#define TAKE_AT_ONCE 256
/* What a message with one fragment holds besides it: header, INFO_DST, INFO_TS, DATA_FRAG, HEARTBEAT. */
#define FRAGMENT_HEADERS 150

static const struct {
  const char *name;
  const dds_topic_descriptor_t *descriptor;
} types[] = {
  { "Sample", &Sample_desc },
  { "KeyedSample", &KeyedSample_desc },
  { "AppendableSample", &AppendableSample_desc },
};

typedef struct {
  char name[MAX_NAME];
  bool is_writer;
  dds_entity_t entity;
  dds_entity_t statuses; /* triggers on those in the mask of the entity */
  dds_entity_t samples;  /* triggers while the reader has any */
} Endpoint;

#ifndef SECURITY_PLUGINS
#define SECURITY_PLUGINS "/usr/lib/x86_64-linux-gnu/libddsc0debian"
#endif

static dds_entity_t domain;
static dds_entity_t participant;
static Endpoint endpoints[MAX_ENTITIES];

static Endpoint *find_endpoint (const char *name)
{
  for (int i = 0; i < MAX_ENTITIES; i++)
    if (endpoints[i].entity > 0 && strcmp (endpoints[i].name, name) == 0)
      return &endpoints[i];
  return NULL;
}

static Endpoint *free_endpoint (void)
{
  for (int i = 0; i < MAX_ENTITIES; i++)
    if (endpoints[i].entity <= 0)
      return &endpoints[i];
  return NULL;
}

/* A plug-in of DDS Security, of the version that is loaded. Debian keeps them in a folder of their own. */
static void load_plugin (dds_qos_t *qos, const char *part, const char *library, const char *suffix)
{
  char name[64], value[256];
  snprintf (name, sizeof (name), "dds.sec.%s.library.path", part);
  snprintf (value, sizeof (value), "%s/libdds_security_%s.so", SECURITY_PLUGINS, library);
  dds_qset_prop (qos, name, value);
  snprintf (name, sizeof (name), "dds.sec.%s.library.init", part);
  snprintf (value, sizeof (value), "init_%s", suffix);
  dds_qset_prop (qos, name, value);
  snprintf (name, sizeof (name), "dds.sec.%s.library.finalize", part);
  snprintf (value, sizeof (value), "finalize_%s", suffix);
  dds_qset_prop (qos, name, value);
}

/* The documents of DDS Security in a folder. */
static void secure (dds_qos_t *qos, const char *folder)
{
  static const struct { const char *property, *file; } parts[] = {
    { "dds.sec.auth.identity_ca", "identity_ca.pem" },
    { "dds.sec.auth.identity_certificate", "identity.pem" },
    { "dds.sec.auth.private_key", "identity.key" },
    { "dds.sec.access.permissions_ca", "permissions_ca.pem" },
    { "dds.sec.access.governance", "governance.p7s" },
    { "dds.sec.access.permissions", "permissions.p7s" },
  };
  load_plugin (qos, "auth", "auth", "authentication");
  load_plugin (qos, "access", "ac", "access_control");
  load_plugin (qos, "crypto", "crypto", "crypto");
  for (size_t i = 0; i < sizeof (parts) / sizeof (parts[0]); i++) {
    char value[512];
    snprintf (value, sizeof (value), "file:%s/%s", folder, parts[i].file);
    dds_qset_prop (qos, parts[i].property, value);
  }
}

/* participant DOMAIN [peers=ADDRESS,…] [lease_ms=N] [message_size_max=BYTES] [security=FOLDER] */
static void do_participant (const Command *command)
{
  const dds_domainid_t id = (dds_domainid_t) command_number (command, 1);
  const char *peers = command_option (command, "peers");
  char peer_list[1024] = "";
  if (peers != NULL) {
    char copy[512];
    snprintf (copy, sizeof (copy), "%s", peers);
    char *rest = NULL;
    for (char *peer = strtok_r (copy, ",", &rest); peer != NULL; peer = strtok_r (NULL, ",", &rest)) {
      const size_t used = strlen (peer_list);
      snprintf (peer_list + used, sizeof (peer_list) - used, "<Peer Address=\"%s\"/>", peer);
    }
  }
  char sizes[256] = "";
  const int64_t message_size_max = command_option_number (command, "message_size_max", 0);
  if (message_size_max > 0)
    snprintf (sizes, sizeof (sizes), "<MaxMessageSize>%lldB</MaxMessageSize><FragmentSize>%lldB</FragmentSize>",
              (long long) message_size_max, (long long) message_size_max - FRAGMENT_HEADERS);
  char config[2048];
  snprintf (config, sizeof (config),
            "<General><AllowMulticast>%s</AllowMulticast>%s</General>"
            "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>20</MaxAutoParticipantIndex>"
            "<Peers>%s</Peers><LeaseDuration>%lldms</LeaseDuration></Discovery>"
            "<Internal><SocketReceiveBufferSize min=\"1MB\" max=\"4MB\"/></Internal>",
            peers != NULL ? "false" : "true", sizes, peer_list,
            (long long) command_option_number (command, "lease_ms", 10000));
  domain = dds_create_domain (id, config);
  if (domain < 0) {
    answer_error ("dds_create_domain: %s", dds_strretcode (-domain));
    return;
  }
  dds_qos_t *qos = dds_create_qos ();
  const char *folder = command_option (command, "security");
  if (folder != NULL)
    secure (qos, folder);
  participant = dds_create_participant (id, qos, NULL);
  dds_delete_qos (qos);
  if (participant < 0)
    answer_error ("dds_create_participant: %s", dds_strretcode (-participant));
  else
    answer_ok ();
}

static void set_history (dds_qos_t *qos, const Command *command)
{
  const int32_t depth = (int32_t) command_option_number (command, "depth", 1);
  const bool keep_last = command_option_is (command, "history", "keep_last");
  const dds_history_kind_t kind = keep_last ? DDS_HISTORY_KEEP_LAST : DDS_HISTORY_KEEP_ALL;
  dds_qset_history (qos, kind, keep_last ? depth : 0);
  /* What a late joiner gets is bounded by this policy and not by HISTORY. */
  dds_qset_durability_service (qos, 0, kind, keep_last ? depth : 1, -1, -1, -1);
}

static void set_partition (dds_qos_t *qos, const char *partitions)
{
  char copy[512];
  const char *names[16];
  uint32_t count = 0;
  snprintf (copy, sizeof (copy), "%s", partitions);
  char *rest = NULL;
  for (char *name = strtok_r (copy, ",", &rest); name != NULL && count < 16; name = strtok_r (NULL, ",", &rest))
    names[count++] = name;
  dds_qset_partition (qos, count, names);
}

static dds_qos_t *endpoint_qos (const Command *command, bool is_writer)
{
  dds_qos_t *qos = dds_create_qos ();
  const bool best_effort = command_option_is (command, "reliability", "best_effort");
  dds_qset_reliability (qos, best_effort ? DDS_RELIABILITY_BEST_EFFORT : DDS_RELIABILITY_RELIABLE, DDS_SECS (10));
  const bool transient = command_option_is (command, "durability", "transient_local");
  dds_qset_durability (qos, transient ? DDS_DURABILITY_TRANSIENT_LOCAL : DDS_DURABILITY_VOLATILE);
  set_history (qos, command);
  const int64_t deadline_ms = command_option_number (command, "deadline_ms", 0);
  dds_qset_deadline (qos, deadline_ms > 0 ? DDS_MSECS (deadline_ms) : DDS_INFINITY);
  dds_liveliness_kind_t liveliness = DDS_LIVELINESS_AUTOMATIC;
  if (command_option_is (command, "liveliness", "manual_by_participant"))
    liveliness = DDS_LIVELINESS_MANUAL_BY_PARTICIPANT;
  else if (command_option_is (command, "liveliness", "manual_by_topic"))
    liveliness = DDS_LIVELINESS_MANUAL_BY_TOPIC;
  const int64_t lease_ms = command_option_number (command, "liveliness_ms", 0);
  dds_qset_liveliness (qos, liveliness, lease_ms > 0 ? DDS_MSECS (lease_ms) : DDS_INFINITY);
  const bool exclusive = command_option_is (command, "ownership", "exclusive");
  dds_qset_ownership (qos, exclusive ? DDS_OWNERSHIP_EXCLUSIVE : DDS_OWNERSHIP_SHARED);
  const char *representation = command_option (command, "representation");
  if (representation != NULL) {
    dds_data_representation_id_t id =
      strcmp (representation, "xcdr2") == 0 ? DDS_DATA_REPRESENTATION_XCDR2 : DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation (qos, 1, &id);
  }
  const char *partition = command_option (command, "partition");
  if (partition != NULL)
    set_partition (qos, partition);
  if (is_writer) {
    dds_qset_ownership_strength (qos, (int32_t) command_option_number (command, "strength", 0));
    dds_qset_writer_data_lifecycle (qos, false);
  }
  return qos;
}

static dds_entity_t create_topic (const char *topic, const char *type)
{
  for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++)
    if (strcmp (types[i].name, type) == 0)
      return dds_create_topic (participant, types[i].descriptor, topic, NULL, NULL);
  return DDS_RETCODE_BAD_PARAMETER;
}

/* writer|reader NAME TOPIC TYPE [qos…] */
static void do_endpoint (const Command *command)
{
  Endpoint *endpoint = free_endpoint ();
  const bool is_writer = strcmp (command_word (command, 0), "writer") == 0;
  if (endpoint == NULL || command->count < 4 || find_endpoint (command_word (command, 1)) != NULL) {
    answer_error ("NAME (not used yet, at most %d at a time), TOPIC and TYPE are needed", MAX_ENTITIES);
    return;
  }
  const dds_entity_t topic = create_topic (command_word (command, 2), command_word (command, 3));
  if (topic < 0) {
    answer_error ("topic: %s", dds_strretcode (-topic));
    return;
  }
  dds_qos_t *qos = endpoint_qos (command, is_writer);
  const dds_entity_t entity =
    is_writer ? dds_create_writer (participant, topic, qos, NULL) : dds_create_reader (participant, topic, qos, NULL);
  dds_delete_qos (qos);
  if (entity < 0) {
    answer_error ("create: %s", dds_strretcode (-entity));
    return;
  }
  snprintf (endpoint->name, sizeof (endpoint->name), "%s", command_word (command, 1));
  endpoint->is_writer = is_writer;
  endpoint->entity = entity;
  endpoint->statuses = dds_create_waitset (participant);
  dds_waitset_attach (endpoint->statuses, entity, 0);
  endpoint->samples = dds_create_waitset (participant);
  if (!is_writer)
    dds_waitset_attach (endpoint->samples, dds_create_readcondition (entity, DDS_ANY_STATE), 0);
  answer_ok ();
}

/* write NAME KEY SEQ SIZE COUNT [PERIOD_US] */
static void do_write (const Command *command, const Endpoint *writer)
{
  const uint32_t first = (uint32_t) command_number (command, 3);
  const uint32_t size = (uint32_t) command_number (command, 4);
  const uint32_t count = (uint32_t) command_number (command, 5);
  const uint64_t period_us = command_number (command, 6);
  uint8_t *data = malloc (size > 0 ? size : 1);
  Sample sample = { .key = (uint32_t) command_number (command, 2),
                    .data = { ._maximum = size, ._length = size, ._buffer = data, ._release = false } };
  for (uint32_t i = 0; i < count; i++) {
    sample.seq = first + i;
    sample.stamp = clock_ns (CLOCK_REALTIME);
    payload_fill (data, size, sample.seq);
    const dds_return_t result = dds_write (writer->entity, &sample);
    if (result < 0) {
      answer_error ("dds_write of seq %u: %s", sample.seq, dds_strretcode (-result));
      free (data);
      return;
    }
    if (period_us > 0)
      pause_us (period_us);
  }
  free (data);
  answer_ok ();
}

/* dispose|unregister NAME KEY */
static void do_end_instance (const Command *command, const Endpoint *writer)
{
  const Sample sample = { .key = (uint32_t) command_number (command, 2) };
  const dds_return_t result = strcmp (command_word (command, 0), "dispose") == 0
                                ? dds_dispose (writer->entity, &sample)
                                : dds_unregister_instance (writer->entity, &sample);
  if (result < 0)
    answer_error ("%s: %s", command_word (command, 0), dds_strretcode (-result));
  else
    answer_ok ();
}

/* wait-acked NAME TIMEOUT_MS */
static void do_wait_acked (const Command *command, const Endpoint *writer)
{
  const dds_return_t result = dds_wait_for_acks (writer->entity, DDS_MSECS ((int64_t) command_number (command, 2)));
  if (result == DDS_RETCODE_OK)
    answer_ok ();
  else
    answer_error ("dds_wait_for_acks: %s", dds_strretcode (-result));
}

static const char *instance_state (dds_instance_state_t state)
{
  switch (state) {
    case DDS_IST_ALIVE: return "alive";
    case DDS_IST_NOT_ALIVE_DISPOSED: return "disposed";
    case DDS_IST_NOT_ALIVE_NO_WRITERS: return "no_writers";
  }
  return "unknown";
}

/* take NAME COUNT TIMEOUT_MS */
static void do_take (const Command *command, const Endpoint *reader)
{
  const uint64_t wanted = command_number (command, 2);
  const dds_time_t deadline = dds_time () + DDS_MSECS ((int64_t) command_number (command, 3));
  uint64_t taken = 0;
  fputs ("{\"ok\":true,\"samples\":[", stdout);
  while (taken < wanted) {
    void *samples[TAKE_AT_ONCE] = { NULL };
    dds_sample_info_t infos[TAKE_AT_ONCE];
    const uint64_t room = wanted - taken < TAKE_AT_ONCE ? wanted - taken : TAKE_AT_ONCE;
    const dds_return_t count = dds_take (reader->entity, samples, infos, room, (uint32_t) room);
    for (dds_return_t i = 0; i < count; i++) {
      const Sample *sample = samples[i];
      const bool valid = infos[i].valid_data;
      const size_t size = valid ? sample->data._length : 0;
      answer_sample (taken == 0, sample->key, valid ? sample->seq : 0, size,
                     payload_is_intact (sample->data._buffer, size, sample->seq), valid,
                     instance_state (infos[i].instance_state));
      taken++;
    }
    if (count > 0)
      dds_return_loan (reader->entity, samples, count);
    else if (dds_waitset_wait_until (reader->samples, NULL, 0, deadline) <= 0)
      break;
  }
  puts ("]}");
  fflush (stdout);
}

static Status read_status (const Endpoint *endpoint)
{
  Status status = { 0 };
  if (endpoint->is_writer) {
    dds_publication_matched_status_t matched;
    dds_offered_incompatible_qos_status_t incompatible;
    dds_offered_deadline_missed_status_t deadline;
    dds_liveliness_lost_status_t lost;
    dds_get_publication_matched_status (endpoint->entity, &matched);
    dds_get_offered_incompatible_qos_status (endpoint->entity, &incompatible);
    dds_get_offered_deadline_missed_status (endpoint->entity, &deadline);
    dds_get_liveliness_lost_status (endpoint->entity, &lost);
    status.matched = matched.current_count;
    status.matched_total = matched.total_count;
    status.incompatible_qos = incompatible.total_count;
    status.incompatible_policy = incompatible.last_policy_id;
    status.deadline_missed = deadline.total_count;
    status.liveliness_lost = lost.total_count;
  } else {
    dds_subscription_matched_status_t matched;
    dds_requested_incompatible_qos_status_t incompatible;
    dds_requested_deadline_missed_status_t deadline;
    dds_liveliness_changed_status_t liveliness;
    dds_sample_lost_status_t lost;
    dds_get_subscription_matched_status (endpoint->entity, &matched);
    dds_get_requested_incompatible_qos_status (endpoint->entity, &incompatible);
    dds_get_requested_deadline_missed_status (endpoint->entity, &deadline);
    dds_get_liveliness_changed_status (endpoint->entity, &liveliness);
    dds_get_sample_lost_status (endpoint->entity, &lost);
    status.matched = matched.current_count;
    status.matched_total = matched.total_count;
    status.incompatible_qos = incompatible.total_count;
    status.incompatible_policy = incompatible.last_policy_id;
    status.deadline_missed = deadline.total_count;
    status.alive = liveliness.alive_count;
    status.not_alive = liveliness.not_alive_count;
    status.sample_lost = lost.total_count;
  }
  return status;
}

/* wait NAME FIELD OP VALUE TIMEOUT_MS */
static void do_wait (const Command *command, const Endpoint *endpoint)
{
  const dds_time_t deadline = dds_time () + DDS_MSECS ((int64_t) command_number (command, 5));
  const uint32_t value = (uint32_t) command_number (command, 4);
  dds_set_status_mask (endpoint->entity, endpoint->is_writer
                                           ? DDS_PUBLICATION_MATCHED_STATUS | DDS_OFFERED_INCOMPATIBLE_QOS_STATUS
                                               | DDS_OFFERED_DEADLINE_MISSED_STATUS | DDS_LIVELINESS_LOST_STATUS
                                           : DDS_SUBSCRIPTION_MATCHED_STATUS | DDS_REQUESTED_INCOMPATIBLE_QOS_STATUS
                                               | DDS_REQUESTED_DEADLINE_MISSED_STATUS | DDS_LIVELINESS_CHANGED_STATUS);
  for (;;) {
    const Status status = read_status (endpoint);
    const bool holds = status_holds (&status, command_word (command, 2), command_word (command, 3), value);
    if (holds || dds_waitset_wait_until (endpoint->statuses, NULL, 0, deadline) <= 0) {
      answer_status (&status, holds);
      return;
    }
  }
}

static void do_status (const Endpoint *endpoint)
{
  const Status status = read_status (endpoint);
  answer_status (&status, true);
}

static void do_delete (Endpoint *endpoint)
{
  dds_delete (endpoint->statuses);
  dds_delete (endpoint->samples);
  dds_delete (endpoint->entity);
  endpoint->entity = 0;
  answer_ok ();
}

/* The domain waits for what its threads still have to send: without, the process can end before it says good-bye. */
static void delete_everything (void)
{
  if (participant > 0)
    dds_delete (participant);
  if (domain > 0)
    dds_delete (domain);
}

/* Every verb but `participant`, `writer` and `reader` names an endpoint that exists. */
static void do_with_endpoint (const Command *command)
{
  const char *verb = command_word (command, 0);
  Endpoint *endpoint = find_endpoint (command_word (command, 1));
  if (endpoint == NULL)
    answer_error ("%s: there is no endpoint called %s", verb, command_word (command, 1));
  else if (strcmp (verb, "write") == 0)
    do_write (command, endpoint);
  else if (strcmp (verb, "dispose") == 0 || strcmp (verb, "unregister") == 0)
    do_end_instance (command, endpoint);
  else if (strcmp (verb, "wait-acked") == 0)
    do_wait_acked (command, endpoint);
  else if (strcmp (verb, "take") == 0)
    do_take (command, endpoint);
  else if (strcmp (verb, "wait") == 0)
    do_wait (command, endpoint);
  else if (strcmp (verb, "status") == 0)
    do_status (endpoint);
  else if (strcmp (verb, "delete") == 0)
    do_delete (endpoint);
  else
    answer_error ("unknown command %s", verb);
}

int main (void)
{
  char line[MAX_LINE];
  printf ("{\"ok\":true,\"peer\":\"Cyclone DDS %s\"}\n", DDS_VERSION);
  fflush (stdout);
  while (fgets (line, sizeof (line), stdin) != NULL) {
    Command command;
    if (!command_parse (&command, line)) {
      answer_error ("more than %d words", MAX_WORDS);
      continue;
    }
    const char *verb = command_word (&command, 0);
    if (strcmp (verb, "quit") == 0)
      break;
    if (strcmp (verb, "participant") == 0)
      do_participant (&command);
    else if (strcmp (verb, "writer") == 0 || strcmp (verb, "reader") == 0)
      do_endpoint (&command);
    else
      do_with_endpoint (&command);
  }
  delete_everything ();
  answer_ok ();
  return 0;
}
