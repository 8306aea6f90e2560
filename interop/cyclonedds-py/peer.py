"""Cyclone DDS 11, from its Python wheel, as an interoperability peer.

The protocol on stdin and stdout is described in interop/README.md.
"""

import json
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version

import cyclonedds.idl.annotations as annotate
from cyclonedds.core import (
    DDSException,
    DDSStatus,
    InstanceState,
    ReadCondition,
    SampleState,
    ViewState,
    WaitSet,
)
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, types
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration

PAYLOAD_PERIOD = 251
INFINITE_NS = 2**63 - 1
UNLIMITED = -1


@annotate.final
@dataclass
class Sample(IdlStruct, typename="Sample"):
    key: types.uint32
    seq: types.uint32
    stamp: types.uint64
    data: types.sequence[types.byte]


@annotate.final
@dataclass
class KeyedSample(IdlStruct, typename="KeyedSample"):
    key: types.uint32
    annotate.key("key")
    seq: types.uint32
    stamp: types.uint64
    data: types.sequence[types.byte]


@annotate.appendable
@dataclass
class AppendableSample(IdlStruct, typename="AppendableSample"):
    key: types.uint32
    annotate.key("key")
    seq: types.uint32
    stamp: types.uint64
    data: types.sequence[types.byte]


TYPES = {kind.__idl_typename__: kind for kind in (Sample, KeyedSample, AppendableSample)}

INSTANCE_STATES = {
    InstanceState.Alive: "alive",
    InstanceState.NotAliveDisposed: "disposed",
    InstanceState.NotAliveNoWriters: "no_writers",
}

WRITER_STATUSES = (
    DDSStatus.PublicationMatched
    | DDSStatus.OfferedIncompatibleQos
    | DDSStatus.OfferedDeadlineMissed
    | DDSStatus.LivelinessLost
)
READER_STATUSES = (
    DDSStatus.SubscriptionMatched
    | DDSStatus.RequestedIncompatibleQos
    | DDSStatus.RequestedDeadlineMissed
    | DDSStatus.LivelinessChanged
)

CONFIG = """
<General><AllowMulticast>{multicast}</AllowMulticast>{sizes}</General>
<Discovery>
  <ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>20</MaxAutoParticipantIndex>
  <Peers>{peers}</Peers><LeaseDuration>{lease_ms}ms</LeaseDuration>
</Discovery>
<Internal><SocketReceiveBufferSize min="1MB" max="4MB"/></Internal>
"""

SIZES = "<MaxMessageSize>{}B</MaxMessageSize><FragmentSize>{}B</FragmentSize>"
# What a message with one fragment holds besides it: header, INFO_DST, INFO_TS, DATA_FRAG, HEARTBEAT.
FRAGMENT_HEADERS = 150


class CommandError(Exception):
    """A command that cannot be carried out, with the reason to answer."""


def payload(size, seq):
    pattern = bytes(range(PAYLOAD_PERIOD))
    start = seq % PAYLOAD_PERIOD
    return (pattern * ((start + size) // PAYLOAD_PERIOD + 1))[start : start + size]


@dataclass
class Command:
    verb: str
    words: list = field(default_factory=list)
    options: dict = field(default_factory=dict)

    @classmethod
    def parse(cls, line):
        verb, *rest = line.split()
        # The operator `=` of `wait` stands alone; an option has a name before it.
        is_option = lambda word: word.find("=") > 0 and not word.startswith(">")
        return cls(
            verb,
            [word for word in rest if not is_option(word)],
            dict(word.split("=", 1) for word in rest if is_option(word)),
        )

    def number(self, index, absent=0):
        return int(self.words[index]) if index < len(self.words) else absent

    def option(self, name, absent=None):
        return self.options.get(name, absent)

    def option_ns(self, name):
        ms = int(self.options.get(name, 0))
        return duration(milliseconds=ms) if ms > 0 else INFINITE_NS


def endpoint_qos(command, is_writer):
    option = command.option
    best_effort = option("reliability") == "best_effort"
    reliable = Policy.Reliability.Reliable(max_blocking_time=duration(seconds=10))
    transient = option("durability") == "transient_local"
    depth = int(option("depth", 1))
    history = Policy.History.KeepLast(depth) if option("history") == "keep_last" else Policy.History.KeepAll
    liveliness = {
        "manual_by_participant": Policy.Liveliness.ManualByParticipant,
        "manual_by_topic": Policy.Liveliness.ManualByTopic,
    }.get(option("liveliness"), Policy.Liveliness.Automatic)
    exclusive = option("ownership") == "exclusive"
    xcdr2 = option("representation") == "xcdr2"
    policies = [
        Policy.Reliability.BestEffort if best_effort else reliable,
        Policy.Durability.TransientLocal if transient else Policy.Durability.Volatile,
        history,
        # What a late joiner gets is bounded by this policy and not by HISTORY.
        Policy.DurabilityService(0, history, UNLIMITED, UNLIMITED, UNLIMITED),
        Policy.Deadline(command.option_ns("deadline_ms")),
        liveliness(command.option_ns("liveliness_ms")),
        Policy.Ownership.Exclusive if exclusive else Policy.Ownership.Shared,
        Policy.DataRepresentation(use_cdrv0_representation=not xcdr2, use_xcdrv2_representation=xcdr2),
    ]
    if is_writer:
        policies += [
            Policy.OwnershipStrength(int(option("strength", 0))),
            Policy.WriterDataLifecycle(autodispose=False),
        ]
    return Qos(*policies)


class Endpoint:
    """A writer or reader, with wait sets on its statuses and on the samples it has."""

    def __init__(self, participant, command, is_writer):
        _, topic_name, type_name = command.words
        if type_name not in TYPES:
            raise CommandError(f"there is no type called {type_name}")
        self.type = TYPES[type_name]
        self.is_writer = is_writer
        partition = command.option("partition")
        container_qos = Qos(Policy.Partition(tuple(partition.split(",")))) if partition else None
        topic = Topic(participant, topic_name, self.type)
        qos = endpoint_qos(command, is_writer)
        if is_writer:
            self.entity = DataWriter(Publisher(participant, qos=container_qos), topic, qos=qos)
        else:
            self.entity = DataReader(Subscriber(participant, qos=container_qos), topic, qos=qos)
        self.statuses = WaitSet(participant)
        self.statuses.attach(self.entity)
        self.samples = WaitSet(participant)
        if not is_writer:
            self.any_sample = ReadCondition(self.entity, SampleState.Any | ViewState.Any | InstanceState.Any)
            self.samples.attach(self.any_sample)

    def delete(self):
        for waitset in (self.statuses, self.samples):
            for entity in waitset.get_entities():
                waitset.detach(entity)
        vars(self).clear()

    def status(self):
        fields = dict.fromkeys(("alive", "not_alive", "liveliness_lost", "sample_lost", "stalled"), 0)
        if self.is_writer:
            matched = self.entity.get_publication_matched_status()
            incompatible = self.entity.get_offered_incompatible_qos_status()
            deadline = self.entity.get_offered_deadline_missed_status()
            fields["liveliness_lost"] = self.entity.get_liveliness_lost_status().total_count
        else:
            matched = self.entity.get_subscription_matched_status()
            incompatible = self.entity.get_requested_incompatible_qos_status()
            deadline = self.entity.get_requested_deadline_missed_status()
            liveliness = self.entity.get_liveliness_changed_status()
            fields["alive"] = liveliness.alive_count
            fields["not_alive"] = liveliness.not_alive_count
            fields["sample_lost"] = self.entity.get_sample_lost_status().total_count
        fields["matched"] = matched.current_count
        fields["matched_total"] = matched.total_count
        fields["incompatible_qos"] = incompatible.total_count
        fields["incompatible_policy"] = incompatible.last_policy_id
        fields["deadline_missed"] = deadline.total_count
        return fields


class Peer:
    def __init__(self):
        self.domain = None
        self.participant = None
        self.endpoints = {}

    def do_participant(self, command):
        """participant DOMAIN [peers=ADDRESS,…] [lease_ms=N] [message_size_max=BYTES]"""
        peers = command.option("peers")
        message_size_max = int(command.option("message_size_max", 0))
        config = CONFIG.format(
            sizes=SIZES.format(message_size_max, message_size_max - FRAGMENT_HEADERS) if message_size_max else "",
            multicast="false" if peers else "true",
            peers="".join(f'<Peer Address="{peer}"/>' for peer in (peers or "").split(",") if peer),
            lease_ms=command.option("lease_ms", 10000),
        )
        self.domain = Domain(command.number(0), config)
        self.participant = DomainParticipant(command.number(0))

    def do_writer(self, command):
        """writer NAME TOPIC TYPE [qos…]"""
        self.add_endpoint(command, is_writer=True)

    def do_reader(self, command):
        """reader NAME TOPIC TYPE [qos…]"""
        self.add_endpoint(command, is_writer=False)

    def add_endpoint(self, command, is_writer):
        if self.participant is None or len(command.words) != 3 or command.words[0] in self.endpoints:
            raise CommandError("a participant, NAME (not used yet), TOPIC and TYPE are needed")
        self.endpoints[command.words[0]] = Endpoint(self.participant, command, is_writer)

    def endpoint(self, command):
        name = command.words[0] if command.words else ""
        if name not in self.endpoints:
            raise CommandError(f"{command.verb}: there is no endpoint called {name}")
        return self.endpoints[name]

    def do_write(self, command):
        """write NAME KEY SEQ SIZE COUNT [PERIOD_US]"""
        endpoint = self.endpoint(command)
        _, key, first, size, count = (int(word) if i else word for i, word in enumerate(command.words[:5]))
        period_s = command.number(5) / 1e6
        for seq in range(first, first + count):
            endpoint.entity.write(endpoint.type(key, seq, time.time_ns(), payload(size, seq)))
            if period_s > 0:
                time.sleep(period_s)

    def do_dispose(self, command):
        """dispose NAME KEY"""
        endpoint = self.endpoint(command)
        endpoint.entity.dispose(endpoint.type(command.number(1), 0, 0, b""))

    def do_unregister(self, command):
        """unregister NAME KEY"""
        endpoint = self.endpoint(command)
        endpoint.entity.unregister_instance(endpoint.type(command.number(1), 0, 0, b""))

    def do_wait_acked(self, command):
        """wait-acked NAME TIMEOUT_MS"""
        if not self.endpoint(command).entity.wait_for_acks(duration(milliseconds=command.number(1))):
            raise CommandError("wait_for_acks: timeout")

    def do_take(self, command):
        """take NAME COUNT TIMEOUT_MS"""
        endpoint = self.endpoint(command)
        wanted = command.number(1)
        deadline = time.monotonic() + command.number(2) / 1e3
        samples = []
        while len(samples) < wanted:
            taken = endpoint.entity.take(wanted - len(samples))
            samples += [describe(sample) for sample in taken]
            if not taken and not wait_until(deadline, endpoint.samples):
                break
        return {"samples": samples}

    def do_wait(self, command):
        """wait NAME FIELD OP VALUE TIMEOUT_MS"""
        endpoint = self.endpoint(command)
        _, name, operator, value, timeout_ms = command.words
        endpoint.entity.set_status_mask(WRITER_STATUSES if endpoint.is_writer else READER_STATUSES)
        deadline = time.monotonic() + int(timeout_ms) / 1e3
        while True:
            status = endpoint.status()
            now = status.get(name, -1)
            reached = now == int(value) if operator == "=" else now >= int(value)
            if reached or not wait_until(deadline, endpoint.statuses):
                return {"reached": reached, **status}

    def do_status(self, command):
        """status NAME"""
        return {"reached": True, **self.endpoint(command).status()}

    def do_delete(self, command):
        """delete NAME"""
        self.endpoint(command).delete()
        del self.endpoints[command.words[0]]

    def delete_everything(self):
        """In this order: the domain waits for what its threads still have to send."""
        for endpoint in self.endpoints.values():
            endpoint.delete()
        self.participant = None
        self.domain = None

    def handle(self, line):
        command = Command.parse(line)
        action = getattr(self, "do_" + command.verb.replace("-", "_"), None)
        if action is None:
            raise CommandError(f"unknown command {command.verb}")
        return action(command) or {}


def wait_until(deadline, waitset):
    """Waits for the set to trigger; false when the deadline passes first."""
    left_ns = int((deadline - time.monotonic()) * 1e9)
    return left_ns > 0 and waitset.wait(left_ns) > 0


def describe(sample):
    info = sample.sample_info
    described = {
        "key": sample.key if info.valid_data else sample.key_sample.key,
        "seq": 0,
        "size": 0,
        "intact": True,
        "valid": info.valid_data,
        "instance": INSTANCE_STATES[info.instance_state],
        "taken_ns": time.time_ns(),
    }
    if info.valid_data:
        described["seq"] = sample.seq
        described["size"] = len(sample.data)
        described["intact"] = bytes(sample.data) == payload(len(sample.data), sample.seq)
    return described


def answer(fields):
    print(json.dumps(fields), flush=True)


def main():
    peer = Peer()
    answer({"ok": True, "peer": f"Cyclone DDS {version('cyclonedds')}"})
    for line in sys.stdin:
        if line.split() == ["quit"]:
            break
        try:
            answer({"ok": True, **peer.handle(line)})
        except (CommandError, DDSException, ValueError, TypeError) as error:
            answer({"ok": False, "error": str(error)})
    peer.delete_everything()
    answer({"ok": True})


main()
