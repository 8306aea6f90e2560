// Fast DDS 2.9 as an interoperability peer. The protocol on stdin and stdout is described in interop/README.md.
#include <fastcdr/Cdr.h>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/log/Log.hpp>
#include <fastdds/dds/log/StdoutErrConsumer.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/DataWriterListener.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastrtps/config.h>
#include <fastrtps/utils/md5.h>

#include <condition_variable>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "protocol.h"

namespace fdds = eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;
using eprosima::fastcdr::Cdr;
using eprosima::fastcdr::FastBuffer;
using eprosima::fastrtps::types::ReturnCode_t;
using std::chrono::milliseconds;

namespace {

constexpr uint32_t socket_buffer_bytes = 4 << 20;
constexpr int64_t heartbeat_period_ms = 100;
constexpr uint32_t meta_port_base = 7410;  // of domain 0 (RTPS 2.5 §9.6.2)
constexpr uint32_t domain_gain = 250;
constexpr uint32_t participant_gain = 2;
constexpr uint32_t unicast_peers_per_host = 10;

struct Sample {
  uint32_t key = 0;
  uint32_t seq = 0;
  uint64_t stamp = 0;
  std::vector<uint8_t> data;
};

// XCDR1: header, key, seq, stamp, length, octets.
uint32_t encoded_size (const Sample &sample)
{
  return 4 + 4 + 4 + 8 + 4 + static_cast<uint32_t> (sample.data.size ());
}

// Sample and KeyedSample of types.idl: one layout, with and without a key.
class SampleType : public fdds::TopicDataType {
public:
  SampleType (const char *name, bool keyed)
  {
    setName (name);
    m_typeSize = encoded_size (Sample ());
    m_isGetKeyDefined = keyed;
  }

  bool serialize (void *data, rtps::SerializedPayload_t *payload) override
  {
    const auto *sample = static_cast<const Sample *> (data);
    FastBuffer buffer (reinterpret_cast<char *> (payload->data), payload->max_size);
    Cdr cdr (buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
    payload->encapsulation = cdr.endianness () == Cdr::BIG_ENDIANNESS ? CDR_BE : CDR_LE;
    try {
      cdr.serialize_encapsulation ();
      cdr << sample->key << sample->seq << sample->stamp << sample->data;
    } catch (const eprosima::fastcdr::exception::Exception &) {
      return false;
    }
    payload->length = static_cast<uint32_t> (cdr.getSerializedDataLength ());
    return true;
  }

  bool deserialize (rtps::SerializedPayload_t *payload, void *data) override
  {
    auto *sample = static_cast<Sample *> (data);
    FastBuffer buffer (reinterpret_cast<char *> (payload->data), payload->length);
    Cdr cdr (buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
    try {
      cdr.read_encapsulation ();
      cdr >> sample->key >> sample->seq >> sample->stamp >> sample->data;
    } catch (const eprosima::fastcdr::exception::Exception &) {
      return false;
    }
    return true;
  }

  std::function<uint32_t ()> getSerializedSizeProvider (void *data) override
  {
    return [data] { return encoded_size (*static_cast<const Sample *> (data)); };
  }

  void *createData () override { return new Sample (); }
  void deleteData (void *data) override { delete static_cast<Sample *> (data); }

  // A key of at most 16 octets is its own hash, in big endian. Fast DDS asks for the MD5 digest where the payload is
  // encrypted, as the generated code of types supports.
  bool getKey (void *data, rtps::InstanceHandle_t *handle, bool force_md5) override
  {
    if (!m_isGetKeyDefined)
      return false;
    const uint32_t key = static_cast<const Sample *> (data)->key;
    unsigned char hash[16] = {};
    for (int i = 0; i < 4; i++)
      hash[i] = static_cast<unsigned char> (key >> (24 - 8 * i));
    if (force_md5) {
      MD5 digest;
      digest.update (hash, 4);
      digest.finalize ();
      memcpy (hash, digest.digest, sizeof (hash));
    }
    for (int i = 0; i < 16; i++)
      handle->value[i] = hash[i];
    return true;
  }
};

// What a listener has seen, for the command thread to wait on.
class Observed {
public:
  template <typename Change> void update (Change change)
  {
    std::lock_guard<std::mutex> lock (mutex_);
    change (status_);
    changed_.notify_all ();
  }

  Status status ()
  {
    std::lock_guard<std::mutex> lock (mutex_);
    return status_;
  }

  bool wait_until (std::chrono::steady_clock::time_point deadline, const std::function<bool (const Status &)> &holds)
  {
    std::unique_lock<std::mutex> lock (mutex_);
    return changed_.wait_until (lock, deadline, [&] { return holds (status_); });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_ {};
};

class WriterListener : public fdds::DataWriterListener {
public:
  Observed observed;

  void on_publication_matched (fdds::DataWriter *, const fdds::PublicationMatchedStatus &now) override
  {
    observed.update ([&] (Status &status) {
      status.matched = now.current_count;
      status.matched_total = now.total_count;
    });
  }
  void on_offered_incompatible_qos (fdds::DataWriter *, const fdds::OfferedIncompatibleQosStatus &now) override
  {
    observed.update ([&] (Status &status) {
      status.incompatible_qos = now.total_count;
      status.incompatible_policy = now.last_policy_id;
    });
  }
  void on_offered_deadline_missed (fdds::DataWriter *, const fdds::OfferedDeadlineMissedStatus &now) override
  {
    observed.update ([&] (Status &status) { status.deadline_missed = now.total_count; });
  }
  void on_liveliness_lost (fdds::DataWriter *, const fdds::LivelinessLostStatus &now) override
  {
    observed.update ([&] (Status &status) { status.liveliness_lost = now.total_count; });
  }
};

class ReaderListener : public fdds::DataReaderListener {
public:
  Observed observed;

  void on_subscription_matched (fdds::DataReader *, const fdds::SubscriptionMatchedStatus &now) override
  {
    observed.update ([&] (Status &status) {
      status.matched = now.current_count;
      status.matched_total = now.total_count;
    });
  }
  void on_requested_incompatible_qos (fdds::DataReader *, const fdds::RequestedIncompatibleQosStatus &now) override
  {
    observed.update ([&] (Status &status) {
      status.incompatible_qos = now.total_count;
      status.incompatible_policy = now.last_policy_id;
    });
  }
  void on_requested_deadline_missed (fdds::DataReader *, const fdds::RequestedDeadlineMissedStatus &now) override
  {
    observed.update ([&] (Status &status) { status.deadline_missed = now.total_count; });
  }
  void on_liveliness_changed (fdds::DataReader *, const fdds::LivelinessChangedStatus &now) override
  {
    observed.update ([&] (Status &status) {
      status.alive = now.alive_count;
      status.not_alive = now.not_alive_count;
    });
  }
  void on_sample_lost (fdds::DataReader *, const fdds::SampleLostStatus &now) override
  {
    observed.update ([&] (Status &status) { status.sample_lost = now.total_count; });
  }
};

struct Endpoint {
  // The listeners outlive the entities that call them: both are deleted by `delete_endpoint`.
  std::unique_ptr<WriterListener> writer_listener;
  std::unique_ptr<ReaderListener> reader_listener;
  fdds::Publisher *publisher = nullptr;
  fdds::Subscriber *subscriber = nullptr;
  fdds::DataWriter *writer = nullptr;
  fdds::DataReader *reader = nullptr;
  // The keys of the samples that the reader has taken: an instance handle may be a digest of the key.
  std::map<rtps::InstanceHandle_t, uint32_t> keys;

  Observed &observed () { return writer != nullptr ? writer_listener->observed : reader_listener->observed; }
};

fdds::DomainParticipant *participant = nullptr;
std::map<std::string, fdds::Topic *> topics;
std::map<std::string, Endpoint> endpoints;

std::chrono::steady_clock::time_point deadline_after (uint64_t timeout_ms)
{
  return std::chrono::steady_clock::now () + milliseconds (timeout_ms);
}

eprosima::fastrtps::Duration_t duration_of_ms (int64_t ms)
{
  if (ms <= 0)
    return eprosima::fastrtps::c_TimeInfinite;
  return { static_cast<int32_t> (ms / 1000), static_cast<uint32_t> (ms % 1000) * 1000000u };
}

std::vector<std::string> split_at_commas (const char *text)
{
  std::vector<std::string> parts;
  std::istringstream stream (text);
  for (std::string part; std::getline (stream, part, ',');)
    parts.push_back (part);
  return parts;
}

// The documents of DDS Security in a folder.
void secure (fdds::DomainParticipantQos &qos, const std::string &folder)
{
  const std::string authentication = "dds.sec.auth.builtin.PKI-DH.";
  const std::string access = "dds.sec.access.builtin.Access-Permissions.";
  const auto file = [&] (const char *name) { return "file://" + folder + "/" + name; };
  auto &properties = qos.properties ().properties ();
  properties.emplace_back ("dds.sec.auth.plugin", "builtin.PKI-DH");
  properties.emplace_back (authentication + "identity_ca", file ("identity_ca.pem"));
  properties.emplace_back (authentication + "identity_certificate", file ("identity.pem"));
  properties.emplace_back (authentication + "private_key", file ("identity.key"));
  properties.emplace_back ("dds.sec.access.plugin", "builtin.Access-Permissions");
  properties.emplace_back (access + "permissions_ca", file ("permissions_ca.pem"));
  properties.emplace_back (access + "governance", file ("governance.p7s"));
  properties.emplace_back (access + "permissions", file ("permissions.p7s"));
  properties.emplace_back ("dds.sec.crypto.plugin", "builtin.AES-GCM-GMAC");
}

void use_unicast_peers (fdds::DomainParticipantQos &qos, uint32_t domain, const char *peers)
{
  // Any unicast metatraffic locator of our own replaces the default ones, of which one is multicast.
  rtps::Locator_t own;
  own.kind = LOCATOR_KIND_UDPv4;
  own.port = 0;
  qos.wire_protocol ().builtin.metatrafficUnicastLocatorList.push_back (own);
  for (const std::string &peer : split_at_commas (peers))
    for (uint32_t index = 0; index < unicast_peers_per_host; index++) {
      rtps::Locator_t locator;
      locator.kind = LOCATOR_KIND_UDPv4;
      rtps::IPLocator::setIPv4 (locator, peer);
      locator.port = meta_port_base + domain_gain * domain + participant_gain * index;
      qos.wire_protocol ().builtin.initialPeersList.push_back (locator);
    }
}

// participant DOMAIN [peers=ADDRESS,…] [lease_ms=N] [message_size_max=BYTES]
void do_participant (const Command &command)
{
  const auto domain = static_cast<uint32_t> (command_number (&command, 1));
  fdds::DomainParticipantQos qos;
  // UDP alone: between processes of one host Fast DDS would prefer its own shared memory.
  auto transport = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor> ();
  transport->receiveBufferSize = socket_buffer_bytes;
  transport->sendBufferSize = socket_buffer_bytes;
  transport->maxMessageSize =
    static_cast<uint32_t> (command_option_number (&command, "message_size_max", transport->maxMessageSize));
  qos.transport ().use_builtin_transports = false;
  qos.transport ().user_transports.push_back (transport);
  auto &discovery = qos.wire_protocol ().builtin.discovery_config;
  const int64_t lease_ms = command_option_number (&command, "lease_ms", 10000);
  discovery.leaseDuration = duration_of_ms (lease_ms);
  discovery.leaseDuration_announcementperiod = duration_of_ms (lease_ms / 3);
  const char *peers = command_option (&command, "peers");
  if (peers != nullptr)
    use_unicast_peers (qos, domain, peers);
  if (const char *folder = command_option (&command, "security"))
    secure (qos, folder);
  participant = fdds::DomainParticipantFactory::get_instance ()->create_participant (domain, qos);
  if (participant == nullptr) {
    answer_error ("create_participant failed");
    return;
  }
  fdds::TypeSupport (new SampleType ("Sample", false)).register_type (participant);
  fdds::TypeSupport (new SampleType ("KeyedSample", true)).register_type (participant);
  answer_ok ();
}

template <typename Qos> void set_common_qos (Qos &qos, const Command &command)
{
  const bool best_effort = command_option_is (&command, "reliability", "best_effort");
  qos.reliability ().kind = best_effort ? fdds::BEST_EFFORT_RELIABILITY_QOS : fdds::RELIABLE_RELIABILITY_QOS;
  qos.reliability ().max_blocking_time = { 10, 0 };
  const bool transient = command_option_is (&command, "durability", "transient_local");
  qos.durability ().kind = transient ? fdds::TRANSIENT_LOCAL_DURABILITY_QOS : fdds::VOLATILE_DURABILITY_QOS;
  const bool keep_last = command_option_is (&command, "history", "keep_last");
  qos.history ().kind = keep_last ? fdds::KEEP_LAST_HISTORY_QOS : fdds::KEEP_ALL_HISTORY_QOS;
  if (keep_last)
    qos.history ().depth = static_cast<int32_t> (command_option_number (&command, "depth", 1));
  qos.deadline ().period = duration_of_ms (command_option_number (&command, "deadline_ms", 0));
  if (command_option_is (&command, "liveliness", "manual_by_participant"))
    qos.liveliness ().kind = fdds::MANUAL_BY_PARTICIPANT_LIVELINESS_QOS;
  else if (command_option_is (&command, "liveliness", "manual_by_topic"))
    qos.liveliness ().kind = fdds::MANUAL_BY_TOPIC_LIVELINESS_QOS;
  const int64_t liveliness_ms = command_option_number (&command, "liveliness_ms", 0);
  qos.liveliness ().lease_duration = duration_of_ms (liveliness_ms);
  if (liveliness_ms > 0)
    qos.liveliness ().announcement_period = duration_of_ms (liveliness_ms / 3 + 1);
  const bool exclusive = command_option_is (&command, "ownership", "exclusive");
  qos.ownership ().kind = exclusive ? fdds::EXCLUSIVE_OWNERSHIP_QOS : fdds::SHARED_OWNERSHIP_QOS;
  // The defaults are finite (5000 samples, 10 instances); 0 lifts them.
  qos.resource_limits ().max_samples = 0;
  qos.resource_limits ().max_instances = 0;
  qos.resource_limits ().max_samples_per_instance = 0;
  // Not one of the DYNAMIC modes: they cannot hold what has no payload, and then refuse a dispose for ever.
  qos.endpoint ().history_memory_policy = rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
  qos.data_sharing ().off ();
}

template <typename Qos> void set_partition (Qos &qos, const Command &command)
{
  const char *partitions = command_option (&command, "partition");
  if (partitions == nullptr)
    return;
  for (const std::string &name : split_at_commas (partitions))
    qos.partition ().push_back (name.c_str ());
}

fdds::Topic *find_or_create_topic (const std::string &name, const std::string &type)
{
  auto found = topics.find (name);
  if (found != topics.end ())
    return found->second->get_type_name () == type ? found->second : nullptr;
  fdds::Topic *topic = participant->create_topic (name, type, fdds::TOPIC_QOS_DEFAULT);
  if (topic != nullptr)
    topics[name] = topic;
  return topic;
}

bool create_writer (Endpoint &endpoint, fdds::Topic *topic, const Command &command)
{
  fdds::PublisherQos publisher_qos;
  set_partition (publisher_qos, command);
  endpoint.publisher = participant->create_publisher (publisher_qos);
  fdds::DataWriterQos qos;
  set_common_qos (qos, command);
  qos.ownership_strength ().value = static_cast<uint32_t> (command_option_number (&command, "strength", 0));
  // The default of 3 s would make every repair that long.
  qos.reliable_writer_qos ().times.heartbeatPeriod = duration_of_ms (heartbeat_period_ms);
  qos.writer_data_lifecycle ().autodispose_unregistered_instances = false;
  endpoint.writer_listener = std::make_unique<WriterListener> ();
  endpoint.writer = endpoint.publisher->create_datawriter (topic, qos, endpoint.writer_listener.get ());
  return endpoint.writer != nullptr;
}

bool create_reader (Endpoint &endpoint, fdds::Topic *topic, const Command &command)
{
  fdds::SubscriberQos subscriber_qos;
  set_partition (subscriber_qos, command);
  endpoint.subscriber = participant->create_subscriber (subscriber_qos);
  fdds::DataReaderQos qos;
  set_common_qos (qos, command);
  endpoint.reader_listener = std::make_unique<ReaderListener> ();
  endpoint.reader = endpoint.subscriber->create_datareader (topic, qos, endpoint.reader_listener.get ());
  return endpoint.reader != nullptr;
}

void delete_endpoint (Endpoint &endpoint)
{
  if (endpoint.writer != nullptr)
    endpoint.publisher->delete_datawriter (endpoint.writer);
  if (endpoint.reader != nullptr)
    endpoint.subscriber->delete_datareader (endpoint.reader);
  if (endpoint.publisher != nullptr)
    participant->delete_publisher (endpoint.publisher);
  if (endpoint.subscriber != nullptr)
    participant->delete_subscriber (endpoint.subscriber);
}

// writer|reader NAME TOPIC TYPE [qos…]
void do_endpoint (const Command &command)
{
  const std::string name = command_word (&command, 1);
  if (participant == nullptr || command.count < 4 || endpoints.count (name) != 0) {
    answer_error ("a participant, NAME (not used yet), TOPIC and TYPE are needed");
    return;
  }
  if (command_option_is (&command, "representation", "xcdr2")) {
    answer_error ("Fast DDS 2.9 has no XCDR2");
    return;
  }
  fdds::Topic *topic = find_or_create_topic (command_word (&command, 2), command_word (&command, 3));
  if (topic == nullptr) {
    answer_error ("no topic of this name and type");
    return;
  }
  Endpoint &endpoint = endpoints[name];
  const bool is_writer = strcmp (command_word (&command, 0), "writer") == 0;
  if (is_writer ? create_writer (endpoint, topic, command) : create_reader (endpoint, topic, command)) {
    answer_ok ();
    return;
  }
  delete_endpoint (endpoint);
  endpoints.erase (name);
  answer_error ("%s refused its QoS", is_writer ? "create_datawriter" : "create_datareader");
}

// write NAME KEY SEQ SIZE COUNT [PERIOD_US]
void do_write (const Command &command, Endpoint &endpoint)
{
  const auto first = static_cast<uint32_t> (command_number (&command, 3));
  const auto count = static_cast<uint32_t> (command_number (&command, 5));
  const uint64_t period_us = command_number (&command, 6);
  Sample sample;
  sample.key = static_cast<uint32_t> (command_number (&command, 2));
  sample.data.resize (command_number (&command, 4));
  for (uint32_t i = 0; i < count; i++) {
    sample.seq = first + i;
    sample.stamp = clock_ns (CLOCK_REALTIME);
    payload_fill (sample.data.data (), sample.data.size (), sample.seq);
    if (!endpoint.writer->write (&sample)) {
      answer_error ("write of seq %u failed", sample.seq);
      return;
    }
    if (period_us > 0)
      pause_us (period_us);
  }
  answer_ok ();
}

// dispose|unregister NAME KEY
void do_end_instance (const Command &command, Endpoint &endpoint)
{
  Sample sample;
  sample.key = static_cast<uint32_t> (command_number (&command, 2));
  const bool dispose = strcmp (command_word (&command, 0), "dispose") == 0;
  const ReturnCode_t result = dispose ? endpoint.writer->dispose (&sample, rtps::c_InstanceHandle_Unknown)
                                      : endpoint.writer->unregister_instance (&sample, rtps::c_InstanceHandle_Unknown);
  if (result == ReturnCode_t::RETCODE_OK)
    answer_ok ();
  else
    answer_error ("%s: code %u", command_word (&command, 0), result ());
}

// wait-acked NAME TIMEOUT_MS
void do_wait_acked (const Command &command, Endpoint &endpoint)
{
  const auto timeout = duration_of_ms (static_cast<int64_t> (command_number (&command, 2)));
  const ReturnCode_t result = endpoint.writer->wait_for_acknowledgments (timeout);
  if (result == ReturnCode_t::RETCODE_OK)
    answer_ok ();
  else
    answer_error ("wait_for_acknowledgments: code %u", result ());
}

const char *instance_state (fdds::InstanceStateKind state)
{
  switch (state) {
    case fdds::ALIVE_INSTANCE_STATE: return "alive";
    case fdds::NOT_ALIVE_DISPOSED_INSTANCE_STATE: return "disposed";
    case fdds::NOT_ALIVE_NO_WRITERS_INSTANCE_STATE: return "no_writers";
    default: return "unknown";
  }
}

uint32_t key_of (const Endpoint &endpoint, const rtps::InstanceHandle_t &handle)
{
  const auto known = endpoint.keys.find (handle);
  if (known != endpoint.keys.end ())
    return known->second;
  uint32_t key = 0;
  for (int i = 0; i < 4; i++)
    key = key << 8 | handle.value[i];
  return key;
}

// take NAME COUNT TIMEOUT_MS
void do_take (const Command &command, Endpoint &endpoint)
{
  const uint64_t wanted = command_number (&command, 2);
  const auto deadline = deadline_after (command_number (&command, 3));
  uint64_t taken = 0;
  fputs ("{\"ok\":true,\"samples\":[", stdout);
  while (taken < wanted) {
    Sample sample;
    fdds::SampleInfo info;
    if (endpoint.reader->take_next_sample (&sample, &info) == ReturnCode_t::RETCODE_OK) {
      // Without data, the instance is known by its handle only.
      const uint32_t key = info.valid_data ? sample.key : key_of (endpoint, info.instance_handle);
      if (info.valid_data)
        endpoint.keys[info.instance_handle] = key;
      answer_sample (taken == 0, key, info.valid_data ? sample.seq : 0, sample.data.size (),
                     payload_is_intact (sample.data.data (), sample.data.size (), sample.seq), info.valid_data,
                     instance_state (info.instance_state));
      taken++;
      continue;
    }
    const auto left = std::chrono::duration_cast<milliseconds> (deadline - std::chrono::steady_clock::now ()).count ();
    if (left <= 0 || !endpoint.reader->wait_for_unread_message (duration_of_ms (left)))
      break;
  }
  puts ("]}");
  fflush (stdout);
}

// wait NAME FIELD OP VALUE TIMEOUT_MS
void do_wait (const Command &command, Endpoint &endpoint)
{
  const auto value = static_cast<uint32_t> (command_number (&command, 4));
  const auto holds = [&] (const Status &status) {
    return status_holds (&status, command_word (&command, 2), command_word (&command, 3), value);
  };
  const bool reached = endpoint.observed ().wait_until (deadline_after (command_number (&command, 5)), holds);
  const Status status = endpoint.observed ().status ();
  answer_status (&status, reached);
}

void do_status (Endpoint &endpoint)
{
  const Status status = endpoint.observed ().status ();
  answer_status (&status, true);
}

// Every verb but `participant`, `writer` and `reader` names an endpoint that exists.
void do_with_endpoint (const Command &command)
{
  const std::string verb = command_word (&command, 0);
  const auto found = endpoints.find (command_word (&command, 1));
  if (found == endpoints.end ()) {
    answer_error ("%s: there is no endpoint called %s", verb.c_str (), command_word (&command, 1));
    return;
  }
  Endpoint &endpoint = found->second;
  const bool writes = verb == "write" || verb == "dispose" || verb == "unregister" || verb == "wait-acked";
  if (writes ? endpoint.writer == nullptr : verb == "take" && endpoint.reader == nullptr)
    answer_error ("%s: %s is the other kind of endpoint", verb.c_str (), command_word (&command, 1));
  else if (verb == "write")
    do_write (command, endpoint);
  else if (verb == "dispose" || verb == "unregister")
    do_end_instance (command, endpoint);
  else if (verb == "wait-acked")
    do_wait_acked (command, endpoint);
  else if (verb == "take")
    do_take (command, endpoint);
  else if (verb == "wait")
    do_wait (command, endpoint);
  else if (verb == "status")
    do_status (endpoint);
  else if (verb == "delete") {
    delete_endpoint (endpoint);
    endpoints.erase (found);
    answer_ok ();
  } else
    answer_error ("unknown command %s", verb.c_str ());
}

void delete_everything ()
{
  if (participant == nullptr)
    return;
  for (auto &endpoint : endpoints)
    delete_endpoint (endpoint.second);
  endpoints.clear ();
  participant->delete_contained_entities ();
  fdds::DomainParticipantFactory::get_instance ()->delete_participant (participant);
}

}  // namespace

int main ()
{
  // The answers have standard output for themselves.
  fdds::Log::ClearConsumers ();
  fdds::Log::RegisterConsumer (std::make_unique<fdds::StdoutErrConsumer> ());
  printf ("{\"ok\":true,\"peer\":\"Fast DDS %s\"}\n", FASTRTPS_VERSION_STR);
  fflush (stdout);
  for (std::string line; std::getline (std::cin, line);) {
    Command command;
    if (line.size () >= MAX_LINE || !command_parse (&command, line.c_str ())) {
      answer_error ("more than %d words or %d octets", MAX_WORDS, MAX_LINE);
      continue;
    }
    const std::string verb = command_word (&command, 0);
    if (verb == "quit")
      break;
    if (verb == "participant")
      do_participant (command);
    else if (verb == "writer" || verb == "reader")
      do_endpoint (command);
    else
      do_with_endpoint (command);
  }
  delete_everything ();
  answer_ok ();
  return 0;
}
