"""A partner for perftest that shares nothing with it: RTI Perftest's topics, types, policies and protocol on Cyclone DDS.

As publisher it plays either test and reports what came back; as subscriber it echoes and counts. It checks every sample
it gets, field by field, and prints one JSON object at its end. It measures nothing.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass

import cyclonedds.idl.annotations as annotate
from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, types
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration

BOUND = 65470
# Length of a sample without its payload.
OVERHEAD = 28
# Payload lengths that are messages of the protocol.
INITIALIZE = 1234
FINISHED = 1235
# Key of what a publisher sends besides data.
CONTROL_KEY = [0xFF, 0xFF, 0, 0]
FINISHED_ATTEMPTS = 50
CONFIG = """
<General><Interfaces><NetworkInterface name="lo" multicast="true"/></Interfaces></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex></Discovery>
"""


@annotate.final
@dataclass
class TestData(IdlStruct, typename="TestData_t"):
    key: types.array[types.byte, 4]
    entity_id: types.int32
    seq_num: types.uint32
    timestamp_sec: types.int32
    timestamp_usec: types.uint32
    latency_ping: types.int32
    bin_data: types.sequence[types.byte, BOUND]


@annotate.final
@dataclass
class TestDataKeyed(IdlStruct, typename="TestDataKeyed_t"):
    key: types.array[types.byte, 4]
    annotate.key("key")
    entity_id: types.int32
    seq_num: types.uint32
    timestamp_sec: types.int32
    timestamp_usec: types.uint32
    latency_ping: types.int32
    bin_data: types.sequence[types.byte, BOUND]


@annotate.final
@dataclass
class TestDataLarge(IdlStruct, typename="TestDataLarge_t"):
    key: types.array[types.byte, 4]
    entity_id: types.int32
    seq_num: types.uint32
    timestamp_sec: types.int32
    timestamp_usec: types.uint32
    latency_ping: types.int32
    bin_data: types.sequence[types.byte]


@annotate.final
@dataclass
class TestDataKeyedLarge(IdlStruct, typename="TestDataKeyedLarge_t"):
    key: types.array[types.byte, 4]
    annotate.key("key")
    entity_id: types.int32
    seq_num: types.uint32
    timestamp_sec: types.int32
    timestamp_usec: types.uint32
    latency_ping: types.int32
    bin_data: types.sequence[types.byte]


# By whether the payload is unbounded and whether there is a key.
TYPES = {
    (False, False): TestData,
    (False, True): TestDataKeyed,
    (True, False): TestDataLarge,
    (True, True): TestDataKeyedLarge,
}


class Failure(Exception):
    """Why the test cannot go on, or what is wrong with it."""


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.seconds = seconds

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def check(self, what):
        if self.left() == 0:
            raise Failure(f"{what} within {self.seconds} s")


class Endpoints:
    """One participant, and the readers and writers of one side."""

    def __init__(self, options):
        self.options = options
        self.type = TYPES[(options.size > BOUND, options.keyed)]
        self.domain = Domain(options.domain, CONFIG)
        self.participant = DomainParticipant(options.domain)
        # Offered as RTI Perftest offers it: its readers ask for no less.
        presentation = Policy.PresentationAccessScope.Topic(coherent_access=False, ordered_access=True)
        self.publisher = Publisher(self.participant, qos=Qos(presentation))
        self.subscriber = Subscriber(self.participant, qos=Qos(presentation))

    def qos(self, topic):
        reliable = topic == "Announcement" or not self.options.best_effort
        transient = topic == "Announcement"
        return Qos(
            Policy.Reliability.Reliable(max_blocking_time=duration(seconds=20))
            if reliable
            else Policy.Reliability.BestEffort,
            Policy.Durability.TransientLocal if transient else Policy.Durability.Volatile,
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False),
        )

    def writer(self, topic):
        return DataWriter(self.publisher, Topic(self.participant, topic, self.type), qos=self.qos(topic))

    def reader(self, topic):
        return Inbox(self, topic)

    def control(self, length, seq_num=0):
        return self.type(CONTROL_KEY, self.options.id, seq_num, 0, 0, -1, bytes(length))


class Inbox:
    """A reader, and a way to wait for what it has."""

    def __init__(self, endpoints, topic):
        self.entity = DataReader(
            endpoints.subscriber, Topic(endpoints.participant, topic, endpoints.type), qos=endpoints.qos(topic)
        )
        self.news = WaitSet(endpoints.participant)
        self.any_sample = ReadCondition(self.entity, SampleState.Any | ViewState.Any | InstanceState.Any)
        self.news.attach(self.any_sample)

    def take(self, seconds):
        """All samples with data that are there, after waiting for the first of them."""
        taken = self.entity.take(1000)
        if not taken and seconds > 0 and self.news.wait(max(1, int(seconds * 1e9))) > 0:
            taken = self.entity.take(1000)
        return [sample for sample in taken if sample.sample_info.valid_data]


def wait_for_matches(deadline, writers, readers):
    while True:
        counts = [writer.get_publication_matched_status().current_count for writer in writers]
        counts += [reader.entity.get_subscription_matched_status().current_count for reader in readers]
        if all(counts):
            return
        deadline.check(f"not everything has matched {counts}")
        time.sleep(0.02)


def fields(sample):
    """Everything of a sample, to compare it."""
    return (
        bytes(sample.key),
        sample.entity_id,
        sample.seq_num,
        sample.timestamp_sec,
        sample.timestamp_usec,
        sample.latency_ping,
        bytes(sample.bin_data),
    )


def key_of(number, options):
    return list((number % options.instances).to_bytes(4, "little"))


class PublisherSide:
    def __init__(self, options):
        self.options = options
        self.endpoints = Endpoints(options)
        self.writer = self.endpoints.writer("Throughput")
        self.pongs = self.endpoints.reader("Latency")
        self.announcements = self.endpoints.reader("Announcement")
        self.payload = bytes(i % 251 for i in range(options.size - OVERHEAD))
        self.sent = {}
        self.echoed = 0
        self.initialize_echoes = 0

    def run(self):
        deadline = Deadline(self.options.timeout)
        wait_for_matches(deadline, [self.writer], [self.pongs, self.announcements])
        self.wait_for_announcement(INITIALIZE, deadline)
        for _ in range(self.options.burst):
            self.writer.write(self.endpoints.control(INITIALIZE))
        for number in range(self.options.count):
            self.send(number, deadline)
        self.finish(deadline)
        return {
            "sent": self.options.count,
            "pings": len(self.sent),
            "echoed": self.echoed,
            "initialize_echoes": self.initialize_echoes,
        }

    def wait_for_announcement(self, length, deadline):
        while True:
            for sample in self.announcements.take(min(0.1, deadline.left())):
                if sample.entity_id != 0:
                    raise Failure(f"subscriber {sample.entity_id} has announced itself")
                if len(sample.bin_data) == length:
                    return
            deadline.check(f"no announcement of length {length}")

    def send(self, number, deadline):
        is_ping = self.options.latency or number % 10 == 0
        clock = time.monotonic_ns() // 1000
        sample = self.endpoints.type(
            key_of(number, self.options),
            0,
            number,
            clock >> 32,
            clock & 0xFFFFFFFF,
            0 if is_ping else -1,
            self.payload,
        )
        if is_ping:
            self.sent[number] = fields(sample)
        self.writer.write(sample)
        while self.options.latency and number in self.sent and self.echoed <= number:
            self.take_pongs(0.1)
            deadline.check(f"no answer to ping {number}")

    def take_pongs(self, seconds):
        for pong in self.pongs.take(seconds):
            if len(pong.bin_data) == INITIALIZE:
                self.initialize_echoes += 1
                continue
            # All but the key, which the subscriber may choose, comes back as it was.
            if fields(pong)[1:] != self.sent.get(pong.seq_num, ())[1:]:
                raise Failure(f"the answer to ping {pong.seq_num} is not what was sent")
            self.echoed += 1

    def finish(self, deadline):
        for _ in range(FINISHED_ATTEMPTS):
            self.writer.write(self.endpoints.control(FINISHED, self.options.count - 1))
            self.take_pongs(0)
            for sample in self.announcements.take(0.1):
                if len(sample.bin_data) == FINISHED:
                    self.take_pongs(0)
                    return
            deadline.check("the end was not confirmed")
        raise Failure("the end was not confirmed")


class SubscriberSide:
    def __init__(self, options):
        self.options = options
        self.endpoints = Endpoints(options)
        self.pong_writer = self.endpoints.writer("Latency")
        self.reader = self.endpoints.reader("Throughput")
        self.announcer = self.endpoints.writer("Announcement")
        self.numbers = []
        # How many samples there are, once the publisher has announced that.
        self.sent = None
        self.last_of_instance = {}
        self.in_order = True
        self.pings = 0
        self.initializations = 0

    def run(self):
        deadline = Deadline(self.options.timeout)
        wait_for_matches(deadline, [self.pong_writer, self.announcer], [self.reader])
        next_announcement = 0.0
        while True:
            if not self.numbers and time.monotonic() >= next_announcement:
                self.announcer.write(self.endpoints.control(INITIALIZE))
                next_announcement = time.monotonic() + 1
            taken = self.reader.take(min(0.1, deadline.left()))
            for sample in taken:
                self.on_sample(sample)
            # The end may be handed over before data of other instances.
            is_complete = len(self.numbers) == self.sent or (self.options.best_effort and not taken)
            if self.sent is not None and is_complete:
                return self.end(deadline)
            deadline.check(f"the publisher has not ended its test ({len(self.numbers)} of {self.sent} samples)")

    def on_sample(self, sample):
        if sample.entity_id != 0:
            raise Failure(f"a sample of publisher {sample.entity_id}")
        length = len(sample.bin_data)
        if length in (INITIALIZE, FINISHED) and list(sample.key) != CONTROL_KEY:
            raise Failure(f"a message of length {length} has the key {sample.key}")
        if length == FINISHED:
            self.sent = sample.seq_num + 1
            return
        if length == INITIALIZE:
            self.initializations += 1
            self.pong_writer.write(sample)
            return
        if length + OVERHEAD != self.options.size:
            raise Failure(f"a sample of {length + OVERHEAD} bytes")
        if list(sample.key) != key_of(sample.seq_num, self.options):
            raise Failure(f"sample {sample.seq_num} has the key {sample.key}")
        if sample.latency_ping == self.options.id:
            self.pings += 1
            self.pong_writer.write(sample)
        elif sample.latency_ping != -1:
            raise Failure(f"sample {sample.seq_num} asks subscriber {sample.latency_ping}")
        # Cyclone DDS hands over one instance after the other, whatever order was asked for.
        instance = bytes(sample.key) if self.options.keyed else b""
        self.in_order = self.in_order and sample.seq_num > self.last_of_instance.get(instance, -1)
        self.last_of_instance[instance] = sample.seq_num
        self.numbers.append(sample.seq_num)

    def end(self, deadline):
        self.announcer.write(self.endpoints.control(FINISHED))
        if not self.announcer.wait_for_acks(duration(seconds=max(1, int(deadline.left())))):
            raise Failure("the publisher does not acknowledge the end")
        # Until the publisher has gone: it may ask again.
        while self.announcer.get_publication_matched_status().current_count > 0 and deadline.left() > 0:
            for sample in self.reader.take(0.05):
                if len(sample.bin_data) == FINISHED:
                    self.announcer.write(self.endpoints.control(FINISHED))
        return {
            "received": len(self.numbers),
            "in_order": self.in_order,
            "last": self.sent - 1,
            "pings": self.pings,
            "initializations": self.initializations,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["pub", "sub"])
    parser.add_argument("--domain", type=int, default=1)
    parser.add_argument("--size", type=int, default=100, help="bytes of a sample, without encapsulation")
    parser.add_argument("--count", type=int, default=200, help="samples to send")
    parser.add_argument("--burst", type=int, default=50, help="initialization samples to send")
    parser.add_argument("--latency", action="store_true", help="wait for the answer to each sample")
    parser.add_argument("--keyed", action="store_true")
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--best-effort", action="store_true")
    parser.add_argument("--id", type=int, default=0, help="number among the subscribers or publishers")
    parser.add_argument("--timeout", type=float, default=40, help="seconds that all of it may take")
    options = parser.parse_args()
    side = PublisherSide(options) if options.role == "pub" else SubscriberSide(options)
    try:
        print(json.dumps(side.run()), flush=True)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
