/* Cyclone DDS behind the protocol of ../README.md. */
#define _GNU_SOURCE
#include <dds/dds.h>
#include <dds/version.h>

#include "agent.h"
#include "sample.h"
#include "scale.h"

/* Of the library, where that is not the one of the headers. */
#ifndef LIBRARY_VERSION
#define LIBRARY_VERSION DDS_VERSION
#endif
#define TAKE_AT_ONCE 256
/* Debian keeps the plug-ins of DDS Security in a folder of their own. */
#ifndef SECURITY_PLUGINS
#define SECURITY_PLUGINS "/usr/lib/x86_64-linux-gnu/libddsc0debian"
#endif
/* seq and the length of data */
#define HEADER_OCTETS 12u
/* RTPS messages as long as a UDP datagram on loopback may be, and fragments that leave room for their headers. */
#define SETTINGS "MaxMessageSize=65000B,FragmentSize=64800B,SocketReceiveBufferSize=8MB,interface=lo,multicast=false"

static dds_entity_t participant, writer, reader, waitset;
static PerftestSample sample;
static bool is_batched;

static const char *unsupported (const Setup *setup)
{
  if (setup->transport == TRANSPORT_TCP)
    return "Cyclone DDS is measured over UDP only";
  if (setup->transport != TRANSPORT_UDP)
    return "shared memory of Cyclone DDS needs the iceoryx daemon or plugin";
  if (setup->async)
    return "Cyclone DDS publishes synchronously only";
  return NULL;
}

static void on_data_available (dds_entity_t entity, void *argument)
{
  (void) entity;
  (void) argument;
  agent_on_data ();
}

static dds_qos_t *endpoint_qos (const Setup *setup)
{
  dds_qos_t *qos = dds_create_qos ();
  dds_qset_reliability (qos, setup->reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT,
                        DDS_MSECS (AGENT_PATIENCE_MS));
  dds_qset_durability (qos, DDS_DURABILITY_VOLATILE);
  dds_qset_history (qos, has_echo (setup) ? DDS_HISTORY_KEEP_LAST : DDS_HISTORY_KEEP_ALL, 1);
  return qos;
}

static const char *create_reader (const Setup *setup, dds_entity_t topic, const dds_qos_t *qos)
{
  dds_listener_t *listener = dds_create_listener (NULL);
  dds_lset_data_available (listener, on_data_available);
  reader = dds_create_reader (participant, topic, qos, setup->wait == WAIT_LISTENER ? listener : NULL);
  dds_delete_listener (listener);
  if (reader < 0)
    return "dds_create_reader failed";
  waitset = dds_create_waitset (participant);
  const dds_entity_t condition = dds_create_readcondition (reader, DDS_ANY_STATE);
  if (waitset < 0 || condition < 0 || dds_waitset_attach (waitset, condition, 0) < 0)
    return "the WaitSet could not be made";
  return NULL;
}

static void set_plugin (dds_qos_t *qos, const char *part, const char *library, const char *function)
{
  static const struct { const char *name, *format; } properties[] = {
    { "path", SECURITY_PLUGINS "/libdds_security_%s.so" },
    { "init", "init_%s" },
    { "finalize", "finalize_%s" },
  };
  for (size_t i = 0; i < sizeof (properties) / sizeof (properties[0]); i++) {
    char name[64], value[128];
    snprintf (name, sizeof (name), "dds.sec.%s.library.%s", part, properties[i].name);
    snprintf (value, sizeof (value), properties[i].format, i == 0 ? library : function);
    dds_qset_prop (qos, name, value);
  }
}

/* The QoS of the participant; NULL for the default. */
static dds_qos_t *participant_qos (const Setup *setup, bool forth)
{
  static const char *const files[][2] = {
    { "auth.identity_ca", "identity_ca.pem" },      { "auth.identity_certificate", "identity.pem" },
    { "auth.private_key", "identity.key" },         { "access.permissions_ca", "permissions_ca.pem" },
    { "access.governance", "governance.p7s" },      { "access.permissions", "permissions.p7s" },
  };
  if (setup->security[0] == '\0')
    return NULL;
  dds_qos_t *qos = dds_create_qos ();
  set_plugin (qos, "auth", "auth", "authentication");
  set_plugin (qos, "access", "ac", "access_control");
  set_plugin (qos, "crypto", "crypto", "crypto");
  for (size_t i = 0; i < sizeof (files) / sizeof (files[0]); i++) {
    char name[64], value[320];
    snprintf (name, sizeof (name), "dds.sec.%s", files[i][0]);
    snprintf (value, sizeof (value), "file:%s/%s/%s", setup->security, forth ? "pub" : "sub", files[i][1]);
    dds_qset_prop (qos, name, value);
  }
  return qos;
}

static const char *open_peer (const Setup *setup)
{
  static const char config[] =
    "<General><Interfaces><NetworkInterface name=\"lo\" multicast=\"false\"/></Interfaces>"
    "<AllowMulticast>false</AllowMulticast><MaxMessageSize>65000B</MaxMessageSize>"
    "<FragmentSize>64800B</FragmentSize></General>"
    "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<Peers><Peer Address=\"127.0.0.1\"/></Peers></Discovery>"
    "<Internal><SocketReceiveBufferSize min=\"208kB\" max=\"8MB\"/></Internal>";
  const bool forth = setup->role == ROLE_PING || setup->role == ROLE_PUB;
  is_batched = setup->batch;
  sample.data._length = sample.data._maximum = setup->size - HEADER_OCTETS;
  sample.data._buffer = (uint8_t *) calloc (1, setup->size);
  if (sample.data._buffer == NULL)
    return "no memory for a sample";
  dds_write_set_batch (setup->batch);
  if (dds_create_domain (setup->domain, config) < 0)
    return "dds_create_domain refused the configuration";
  dds_qos_t *of_participant = participant_qos (setup, forth);
  participant = dds_create_participant (setup->domain, of_participant, NULL);
  dds_delete_qos (of_participant);
  if (participant < 0)
    return "dds_create_participant failed";
  const dds_entity_t there = dds_create_topic (participant, &PerftestSample_desc, "perftest_there", NULL, NULL);
  const dds_entity_t back = dds_create_topic (participant, &PerftestSample_desc, "perftest_back", NULL, NULL);
  if (there < 0 || back < 0)
    return "dds_create_topic failed";
  const char *problem = NULL;
  dds_qos_t *qos = endpoint_qos (setup);
  if (setup->role != ROLE_SUB)
    writer = dds_create_writer (participant, forth ? there : back, qos, NULL);
  if (writer < 0)
    problem = "dds_create_writer failed";
  else if (setup->role != ROLE_PUB)
    problem = create_reader (setup, forth ? back : there, qos);
  dds_delete_qos (qos);
  return problem;
}

static bool is_matched (void)
{
  dds_publication_matched_status_t published;
  dds_subscription_matched_status_t subscribed;
  return (writer == 0 || (dds_get_publication_matched_status (writer, &published) == 0 && published.current_count > 0))
         && (reader == 0 || (dds_get_subscription_matched_status (reader, &subscribed) == 0 && subscribed.current_count > 0));
}

static bool write_sample (uint64_t seq)
{
  sample.seq = seq;
  return dds_write (writer, &sample) == 0;
}

static void flush_batch (void)
{
  if (is_batched)
    dds_write_flush (writer);
}

static bool wait_acknowledged (int timeout_ms)
{
  return dds_wait_for_acks (writer, DDS_MSECS (timeout_ms)) == 0;
}

static void wait_for_samples (int timeout_ms)
{
  dds_waitset_wait (waitset, NULL, 0, DDS_MSECS (timeout_ms));
}

static void take_samples (void)
{
  void *samples[TAKE_AT_ONCE] = { NULL };
  dds_sample_info_t infos[TAKE_AT_ONCE];
  const dds_return_t count = dds_take (reader, samples, infos, TAKE_AT_ONCE, TAKE_AT_ONCE);
  for (dds_return_t i = 0; i < count; i++)
    if (infos[i].valid_data) {
      const PerftestSample *taken = (const PerftestSample *) samples[i];
      agent_sample (taken->seq, taken->data._length + HEADER_OCTETS);
    }
  if (count > 0)
    dds_return_loan (reader, samples, count);
}

static void close_peer (void)
{
  dds_delete (DDS_CYCLONEDDS_HANDLE);
  free (sample.data._buffer);
}

static const char *version (void)
{
  return LIBRARY_VERSION;
}

static const char *settings (const Setup *setup)
{
  return setup->batch ? SETTINGS ",write_batch=true" : SETTINGS;
}

int main (int argc, char **argv)
{
  if (argc == 2 && strcmp (argv[1], "scale") == 0)
    return scale_run ();
  if (argc == 2 && strcmp (argv[1], "version") == 0) {
    puts (LIBRARY_VERSION);
    return 0;
  }
  const Peer peer = {
    .name = "cyclonedds", .version = version, .unsupported = unsupported, .open = open_peer, .settings = settings,
    .is_matched = is_matched, .write = write_sample, .flush = flush_batch, .wait_acknowledged = wait_acknowledged,
    .wait = wait_for_samples, .take = take_samples, .close = close_peer,
  };
  return agent_run (&peer);
}
