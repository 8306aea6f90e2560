// Fast DDS behind the protocol of ../README.md. The type is plain and of fixed size, which suits Fast DDS best: it is
// copied as it is, and with data sharing it is not copied at all.
#include <fastdds/dds/core/LoanableSequence.hpp>
#include <fastdds/dds/core/condition/WaitSet.hpp>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/shared_mem/SharedMemTransportDescriptor.h>
#include <fastrtps/config.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "agent.h"

#define TEXT_OF(value) #value
#define VERSION_TEXT(major, minor, micro) TEXT_OF (major) "." TEXT_OF (minor) "." TEXT_OF (micro)

namespace fdds = eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;
using eprosima::fastrtps::types::ReturnCode_t;

namespace {

constexpr uint32_t encapsulation_octets = 4;
constexpr uint32_t socket_buffer_octets = 8 << 20;
constexpr uint32_t segment_octets = 64 << 20;
constexpr uint32_t history_octets = 32 << 20;
constexpr uint32_t history_samples_min = 16;
// All of these are allocated at the start, so there are fewer of large samples.
constexpr uint32_t large_history_octets = 128 << 20;
constexpr uint32_t large_history_samples_min = 3;
constexpr uint32_t history_samples_max = 2000;
constexpr int32_t take_at_once = 16;
constexpr uint32_t meta_port_base = 7410;  // of domain 0 (RTPS 2.5 §9.6.2)
constexpr uint32_t participants_per_host = 8;

// The number, then octets up to the size that was set up.
class SampleType : public fdds::TopicDataType {
public:
  explicit SampleType (uint32_t size) : size_ (size)
  {
    setName ("PerftestPlainSample");
    m_typeSize = size + encapsulation_octets;
    m_isGetKeyDefined = false;
  }

  bool serialize (void *data, rtps::SerializedPayload_t *payload) override
  {
    if (payload->max_size < m_typeSize)
      return false;
    payload->encapsulation = CDR_LE;
    payload->data[0] = 0;
    payload->data[1] = CDR_LE;
    payload->data[2] = payload->data[3] = 0;
    memcpy (payload->data + encapsulation_octets, data, size_);
    payload->length = m_typeSize;
    return true;
  }

  bool deserialize (rtps::SerializedPayload_t *payload, void *data) override
  {
    if (payload->length != m_typeSize)
      return false;
    memcpy (data, payload->data + encapsulation_octets, size_);
    return true;
  }

  std::function<uint32_t ()> getSerializedSizeProvider (void *) override
  {
    return [size = m_typeSize] { return size; };
  }

  void *createData () override { return new uint8_t[size_](); }
  void deleteData (void *data) override { delete[] static_cast<uint8_t *> (data); }
  bool getKey (void *, rtps::InstanceHandle_t *, bool) override { return false; }
  bool is_bounded () const override { return true; }
  bool is_plain () const override { return true; }
  bool construct_sample (void *memory) const override
  {
    memset (memory, 0, size_);
    return true;
  }

private:
  uint32_t size_;
};

class Listener : public fdds::DataReaderListener {
public:
  void on_data_available (fdds::DataReader *) override { agent_on_data (); }
};

fdds::DomainParticipant *participant;
fdds::Publisher *publisher;
fdds::Subscriber *subscriber;
fdds::Topic *there, *back;
fdds::DataWriter *writer;
fdds::DataReader *reader;
Listener listener;
fdds::WaitSet waitset;
bool has_loans;
std::vector<uint8_t> sample;

const char *unsupported (const Setup *setup)
{
  if (setup->transport == TRANSPORT_TCP)
    return "Fast DDS is measured over UDP and shared memory only";
  if (setup->batch)
    return "Fast DDS does not batch samples";
  if (setup->transport == TRANSPORT_DATA_SHARING && !setup->reliable)
    return "a best-effort writer overwrites loans that are still read";
  if (setup->transport == TRANSPORT_DATA_SHARING && (setup->role == ROLE_PUB || setup->role == ROLE_SUB))
    return "at full rate Fast DDS may never acknowledge loaned samples: only the ping-pong test runs";
  return nullptr;
}

// The documents of DDS Security.
void secure (fdds::DomainParticipantQos &qos, const Setup *setup)
{
  const bool forth = setup->role == ROLE_PING || setup->role == ROLE_PUB;
  const std::string folder = "file://" + std::string (setup->security) + (forth ? "/pub/" : "/sub/");
  const std::string authentication = "builtin.PKI-DH", access = "builtin.Access-Permissions";
  auto &properties = qos.properties ().properties ();
  properties.emplace_back ("dds.sec.auth.plugin", authentication);
  for (const auto &[name, file] : { std::pair { ".identity_ca", "identity_ca.pem" },
                                    std::pair { ".identity_certificate", "identity.pem" },
                                    std::pair { ".private_key", "identity.key" } })
    properties.emplace_back ("dds.sec.auth." + authentication + name, folder + file);
  properties.emplace_back ("dds.sec.access.plugin", access);
  for (const auto &[name, file] : { std::pair { ".permissions_ca", "permissions_ca.pem" },
                                    std::pair { ".governance", "governance.p7s" },
                                    std::pair { ".permissions", "permissions.p7s" } })
    properties.emplace_back ("dds.sec.access." + access + name, folder + file);
  properties.emplace_back ("dds.sec.crypto.plugin", "builtin.AES-GCM-GMAC");
}

fdds::DomainParticipantQos participant_qos (const Setup *setup)
{
  fdds::DomainParticipantQos qos;
  auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor> ();
  udp->receiveBufferSize = socket_buffer_octets;
  udp->sendBufferSize = socket_buffer_octets;
  udp->interfaceWhiteList.push_back ("127.0.0.1");
  qos.transport ().use_builtin_transports = false;
  if (setup->transport != TRANSPORT_UDP) {
    auto shm = std::make_shared<eprosima::fastdds::rtps::SharedMemTransportDescriptor> ();
    shm->segment_size (segment_octets);
    qos.transport ().user_transports.push_back (shm);
  }
  qos.transport ().user_transports.push_back (udp);
  // A unicast metatraffic locator of our own replaces the default ones, of which one is multicast.
  rtps::Locator_t own;
  own.kind = LOCATOR_KIND_UDPv4;
  own.port = 0;
  qos.wire_protocol ().builtin.metatrafficUnicastLocatorList.push_back (own);
  for (uint32_t index = 0; index < participants_per_host; index++) {
    rtps::Locator_t locator;
    locator.kind = LOCATOR_KIND_UDPv4;
    rtps::IPLocator::setIPv4 (locator, "127.0.0.1");
    locator.port = meta_port_base + 250 * setup->domain + 2 * index;
    qos.wire_protocol ().builtin.initialPeersList.push_back (locator);
  }
  if (setup->security[0] != '\0')
    secure (qos, setup);
  return qos;
}

// 0 lifts a limit.
template <typename Qos> void set_limits (Qos &qos, uint32_t samples)
{
  qos.resource_limits ().max_instances = 0;
  qos.resource_limits ().max_samples = static_cast<int32_t> (samples);
  qos.resource_limits ().max_samples_per_instance = static_cast<int32_t> (samples);
  qos.resource_limits ().allocated_samples = static_cast<int32_t> (samples);
}

template <typename Qos> void set_endpoint_qos (Qos &qos, const Setup *setup)
{
  qos.reliability ().kind = setup->reliable ? fdds::RELIABLE_RELIABILITY_QOS : fdds::BEST_EFFORT_RELIABILITY_QOS;
  qos.reliability ().max_blocking_time = { AGENT_PATIENCE_MS / 1000, 0 };
  qos.durability ().kind = fdds::VOLATILE_DURABILITY_QOS;
  qos.history ().kind = has_echo (setup) ? fdds::KEEP_LAST_HISTORY_QOS : fdds::KEEP_ALL_HISTORY_QOS;
  qos.history ().depth = 1;
  qos.endpoint ().history_memory_policy = rtps::PREALLOCATED_MEMORY_MODE;
  if (setup->transport == TRANSPORT_DATA_SHARING)
    qos.data_sharing ().on ("");
  else
    qos.data_sharing ().off ();
}

uint32_t history_samples (uint32_t size)
{
  const uint32_t least =
    std::min (history_samples_min, std::max (large_history_samples_min, large_history_octets / size));
  return std::min (history_samples_max, std::max (least, history_octets / size));
}

bool create_writer (const Setup *setup, fdds::Topic *topic)
{
  fdds::DataWriterQos qos;
  set_endpoint_qos (qos, setup);
  set_limits (qos, history_samples (setup->size));
  qos.publish_mode ().kind = setup->async ? fdds::ASYNCHRONOUS_PUBLISH_MODE : fdds::SYNCHRONOUS_PUBLISH_MODE;
  qos.reliable_writer_qos ().times.heartbeatPeriod = { 0, 100000000u };
  publisher = participant->create_publisher (fdds::PUBLISHER_QOS_DEFAULT);
  writer = publisher == nullptr ? nullptr : publisher->create_datawriter (topic, qos);
  return writer != nullptr;
}

bool create_reader (const Setup *setup, fdds::Topic *topic)
{
  const bool listens = setup->wait == WAIT_LISTENER;
  fdds::DataReaderQos qos;
  set_endpoint_qos (qos, setup);
  set_limits (qos, setup->transport == TRANSPORT_DATA_SHARING ? history_samples_max : 0);
  subscriber = participant->create_subscriber (fdds::SUBSCRIBER_QOS_DEFAULT);
  if (subscriber == nullptr)
    return false;
  reader = subscriber->create_datareader (topic, qos, listens ? &listener : nullptr,
                                          listens ? fdds::StatusMask::data_available () : fdds::StatusMask::none ());
  if (reader == nullptr)
    return false;
  reader->get_statuscondition ().set_enabled_statuses (fdds::StatusMask::data_available ());
  return waitset.attach_condition (reader->get_statuscondition ()) == ReturnCode_t::RETCODE_OK;
}

const char *open_peer (const Setup *setup)
{
  const bool forth = setup->role == ROLE_PING || setup->role == ROLE_PUB;
  has_loans = setup->transport == TRANSPORT_DATA_SHARING;
  sample.resize (setup->size);
  participant =
    fdds::DomainParticipantFactory::get_instance ()->create_participant (setup->domain, participant_qos (setup));
  if (participant == nullptr)
    return "create_participant failed";
  fdds::TypeSupport type (new SampleType (setup->size));
  type.register_type (participant);
  there = participant->create_topic ("perftest_there", type.get_type_name (), fdds::TOPIC_QOS_DEFAULT);
  back = participant->create_topic ("perftest_back", type.get_type_name (), fdds::TOPIC_QOS_DEFAULT);
  if (there == nullptr || back == nullptr)
    return "create_topic failed";
  if (setup->role != ROLE_SUB && !create_writer (setup, forth ? there : back))
    return "the writer could not be made";
  if (setup->role != ROLE_PUB && !create_reader (setup, forth ? back : there))
    return "the reader could not be made";
  return nullptr;
}

bool is_matched ()
{
  fdds::PublicationMatchedStatus published;
  fdds::SubscriptionMatchedStatus subscribed;
  if (writer != nullptr) {
    writer->get_publication_matched_status (published);
    if (published.current_count == 0)
      return false;
  }
  if (reader == nullptr)
    return true;
  reader->get_subscription_matched_status (subscribed);
  return subscribed.current_count != 0;
}

// One attempt, which also fails when there is no room: neither loans nor, in 2.9, writes always wait for it.
bool try_write (uint64_t seq)
{
  void *data = sample.data ();
  if (has_loans
      && writer->loan_sample (data, fdds::DataWriter::LoanInitializationKind::NO_LOAN_INITIALIZATION)
           != ReturnCode_t::RETCODE_OK)
    return false;
  // A loan holds whatever was there before: the sample is written into it, as an application would.
  if (has_loans)
    memcpy (data, sample.data (), sample.size ());
  memcpy (data, &seq, sizeof (seq));
  if (writer->write (data))
    return true;
  if (has_loans)
    writer->discard_loan (data);
  return false;
}

bool write_sample (uint64_t seq)
{
  if (try_write (seq))
    return true;
  const uint64_t limit = agent_now () + static_cast<uint64_t> (AGENT_PATIENCE_MS) * 1000000u;
  while (agent_now () < limit && !agent_is_stopped ()) {
    sched_yield ();
    if (try_write (seq))
      return true;
  }
  return false;
}

void flush_batch () {}

bool wait_acknowledged (int timeout_ms)
{
  return writer->wait_for_acknowledgments ({ timeout_ms / 1000, 0 }) == ReturnCode_t::RETCODE_OK;
}

void wait_for_samples (int timeout_ms)
{
  fdds::ConditionSeq active;
  waitset.wait (active, { timeout_ms / 1000, static_cast<uint32_t> (timeout_ms % 1000) * 1000000u });
}

void take_samples ()
{
  fdds::LoanableSequence<uint8_t> samples;
  fdds::SampleInfoSeq infos;
  while (reader->take (samples, infos, take_at_once) == ReturnCode_t::RETCODE_OK) {
    for (fdds::LoanableCollection::size_type i = 0; i < infos.length (); i++)
      if (infos[i].valid_data) {
        uint64_t seq;
        memcpy (&seq, &samples[i], sizeof (seq));
        // With data sharing the writer may have taken the memory back: what was read then counts as lost.
        if (!has_loans || reader->is_sample_valid (&samples[i], &infos[i]))
          agent_sample (seq, sample.size ());
      }
    reader->return_loan (samples, infos);
  }
}

void close_peer ()
{
  if (reader != nullptr)
    waitset.detach_condition (reader->get_statuscondition ());
  participant->delete_contained_entities ();
  fdds::DomainParticipantFactory::get_instance ()->delete_participant (participant);
}

const char *version ()
{
  return VERSION_TEXT (FASTRTPS_VERSION_MAJOR, FASTRTPS_VERSION_MINOR, FASTRTPS_VERSION_MICRO);
}

const char *settings (const Setup *setup)
{
  switch (setup->transport) {
  case TRANSPORT_SHM:
    return "transports=SHM+UDPv4,segment=64MiB,heartbeatPeriod=100ms,data_sharing=off,type=plain";
  case TRANSPORT_DATA_SHARING:
    return "transports=SHM+UDPv4,segment=64MiB,heartbeatPeriod=100ms,data_sharing=on,loans=on,type=plain";
  default:
    return "transports=UDPv4,socketBuffers=8MiB,heartbeatPeriod=100ms,data_sharing=off,type=plain,interface=127.0.0.1";
  }
}

}  // namespace

int main ()
{
  const Peer peer = { "fastdds", version, unsupported, open_peer, settings, is_matched, write_sample, flush_batch,
                      wait_acknowledged, wait_for_samples, take_samples, close_peer };
  return agent_run (&peer);
}
