//! The builder of participants, and the list of participants of this process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use peregrine_rtps::discovery::data::NAME_BYTES_MAX;
use peregrine_rtps::id::{DomainId, GuidPrefix};
use peregrine_rtps::memory_account::PeerAccounts;
use peregrine_rtps::participant::{Addresses, ParticipantConfig};
use peregrine_rtps::protection::SharedProtection;
use peregrine_rtps::qos::{IgnoreLocal, ParticipantQos};
use peregrine_rtps::time::Span;

use super::{Defaults, DomainParticipant, Entity, ParticipantInner, ParticipantState};
use crate::condition::{NoStatuses, StatusCondition};
use crate::config::DomainConfig;
use crate::driver::base::sync::lock;
use crate::driver::base::weak_list::WeakList;
use crate::driver::host::Host as _;
use crate::driver::reactor::domain::DomainHandle;
use crate::driver::session::participant::ParticipantCore;
#[cfg(feature = "security")]
use crate::driver::session::security::{Security, calendar};
use crate::error::{Argument, BadParameter, Error, Unit};
use crate::process::{is_own_prefix, new_prefix};
#[cfg(feature = "security")]
use crate::security::PreShared;
use crate::state_machine::random_u64;
use crate::{logging, peer_memory, qos};

/// Default lease of a participant.
const LEASE_DEFAULT: Duration = Duration::from_secs(20);

/// The shortest lease, in milliseconds: three announcements fit into it.
const LEASE_MIN_MS: u64 = 100;

/// Announcements per lease: two may be lost without harm.
const ANNOUNCEMENTS_PER_LEASE: u64 = 3;

/// The participants of this process.
static PARTICIPANTS: Mutex<Vec<Weak<ParticipantInner>>> = Mutex::new(Vec::new());

/// The policies of participants whose builder sets none; `None`: the defaults of the standard.
static DEFAULT_QOS: Mutex<Option<ParticipantQos>> = Mutex::new(None);

/// Whether participants are created enabled.
static AUTOENABLES: AtomicBool = AtomicBool::new(true);

/// Describes and creates a participant.
#[derive(Clone, Debug)]
pub struct ParticipantBuilder {
    domain: DomainId,
    domain_tag: String,
    name: String,
    qos: Option<ParticipantQos>,
    config: DomainConfig,
    lease: Duration,
    is_enabled: Option<bool>,
    ignore_local: IgnoreLocal,
    protection: Option<MakeProtection>,
    #[cfg(feature = "security")]
    security: Option<crate::security::SecurityConfig>,
}

/// Creates the protection of the participant with the given prefix.
#[derive(Clone)]
struct MakeProtection(Arc<dyn Fn(GuidPrefix) -> SharedProtection + Send + Sync>);

impl fmt::Debug for MakeProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeProtection")
    }
}

impl DomainParticipant {
    /// A participant with default settings.
    ///
    /// # Errors
    /// The domain is not between 0 and 232, or the system refuses sockets or threads.
    pub fn new(domain: u32) -> Result<Self, Error> {
        Self::builder(domain).build()
    }

    /// Starts the description of a participant.
    #[must_use]
    pub fn builder(domain: u32) -> ParticipantBuilder {
        ParticipantBuilder {
            domain: DomainId(domain),
            domain_tag: String::new(),
            name: String::new(),
            qos: None,
            config: DomainConfig::default(),
            lease: LEASE_DEFAULT,
            is_enabled: None,
            ignore_local: IgnoreLocal::None,
            protection: None,
            #[cfg(feature = "security")]
            security: None,
        }
    }
}

impl ParticipantBuilder {
    /// Divides the domain: participants discover only participants with the same tag. The default is empty.
    #[must_use]
    pub fn domain_tag(mut self, tag: impl Into<String>) -> Self {
        self.domain_tag = tag.into();
        self
    }

    /// A name, for people. The default is empty.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Policies. The default is that of
    /// [`DomainParticipantFactory::set_default_participant_qos`](crate::DomainParticipantFactory::set_default_participant_qos).
    #[must_use]
    pub fn qos(mut self, qos: ParticipantQos) -> Self {
        self.qos = Some(qos);
        self
    }

    /// Transports, interfaces, peers, threads. The default is [`DomainConfig::default`].
    #[must_use]
    pub fn config(mut self, config: DomainConfig) -> Self {
        self.config = config;
        self
    }

    /// Whether the participant joins the domain at once, or when [`DomainParticipant::enable`] is called. The default
    /// is that of [`DomainParticipantFactory::set_qos`](crate::DomainParticipantFactory::set_qos): at once.
    #[must_use]
    pub const fn enabled(mut self, is_enabled: bool) -> Self {
        self.is_enabled = Some(is_enabled);
        self
    }

    /// Which endpoints near them the endpoints of the participant do not match, unless an endpoint is built with a
    /// choice of its own ([`DataWriterBuilder::ignore_local`](crate::DataWriterBuilder::ignore_local),
    /// [`DataReaderBuilder::ignore_local`](crate::DataReaderBuilder::ignore_local)). The default is
    /// [`IgnoreLocal::None`].
    ///
    /// ```no_run
    /// use peregrine::DomainParticipant;
    /// use peregrine::qos::IgnoreLocal;
    ///
    /// // A router writes to the topics that it reads, and does not read its own samples.
    /// let router = DomainParticipant::builder(0).ignore_local(IgnoreLocal::Participant).build()?;
    /// # Ok::<(), peregrine::Error>(())
    /// ```
    #[must_use]
    pub const fn ignore_local(mut self, kind: IgnoreLocal) -> Self {
        self.ignore_local = kind;
        self
    }

    /// The lease: the time for which other participants keep this one without a message from it. The default is 20 s;
    /// the participant announces itself three times in that time. The shortest lease is 100 ms; [`Duration::MAX`] is a
    /// lease without end.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Authentication, access control and cryptography by DDS Security. The default is none.
    ///
    /// The participant communicates with participants that have certificates of the same authority and permissions of
    /// the same authority, and protects what the governance document requires. Topics with a level of protection use
    /// neither shared memory nor delivery within the process.
    #[cfg(feature = "security")]
    #[must_use]
    pub fn security(mut self, config: crate::security::SecurityConfig) -> Self {
        self.security = Some(config);
        self
    }

    /// Protects the traffic of the participant and its endpoints. `make` creates the protection for the GUID prefix of
    /// the participant. Both sides have to know each other's keys: there is no authentication yet. Topics with a level
    /// of protection use neither shared memory nor delivery within the process.
    #[doc(hidden)]
    #[must_use]
    pub fn protection(mut self, make: impl Fn(GuidPrefix) -> SharedProtection + Send + Sync + 'static) -> Self {
        self.protection = Some(MakeProtection(Arc::new(make)));
        self
    }

    /// Joins the domain.
    ///
    /// # Errors
    /// The domain or a setting is out of range, the environment variable `PEREGRINE_LOG` is not a level, a policy is
    /// too long to be announced, an interface does not exist, a peer cannot be resolved, or the system refuses sockets
    /// or threads.
    pub fn build(self) -> Result<DomainParticipant, Error> {
        logging::start_from_environment()?;
        self.config.check()?;
        for (argument, text) in [(Argument::DomainTag, &self.domain_tag), (Argument::ParticipantName, &self.name)] {
            if text.len() > NAME_BYTES_MAX {
                return Err(BadParameter::TooLong { argument, len: text.len(), max: NAME_BYTES_MAX }.into());
            }
        }
        if self.lease < Duration::from_millis(LEASE_MIN_MS) {
            // Rounded down: the number shown is below the minimum.
            let value = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
            let (min, max, unit) = (LEASE_MIN_MS, u64::MAX, Unit::Milliseconds);
            return Err(BadParameter::OutOfRange { argument: Argument::Lease, value, min, max, unit }.into());
        }
        let qos = self.qos.unwrap_or_else(default_qos);
        qos::check_participant(&qos)?;
        let handle = DomainHandle::get(self.domain, &self.config)?;
        let domain = Arc::clone(handle.domain());
        let lease = Span::from(self.lease);
        let prefix = new_prefix()?;
        #[cfg_attr(not(feature = "security"), expect(unused_mut, reason = "security changes the configuration"))]
        let mut config = ParticipantConfig {
            domain: self.domain,
            domain_tag: self.domain_tag,
            name: self.name,
            qos: qos.clone(),
            lease,
            announce_period: lease.divided_by(ANNOUNCEMENTS_PER_LEASE),
            addresses: Addresses::clone(&domain.addresses()),
            shared_memory: domain.shared_memory_address(),
            is_in_process: is_own_prefix,
            protection: self.protection.map(|MakeProtection(make)| make(prefix)),
            memory: PeerAccounts::new(self.config.max_peer_bytes, peer_memory::process_account()),
            ..ParticipantConfig::new(prefix, random_u64()?)
        };
        #[cfg(feature = "security")]
        let (security, trusts_host) = match &self.security {
            None => (None, false),
            Some(settings) => match settings.load_without_certificate()? {
                // A pre-shared key authenticates no participant: other users of the host may know the key, too.
                Some(PreShared { passphrases, key_length, kind }) => {
                    (Some(Security::configure_pre_shared(&passphrases, key_length, kind, &mut config)), false)
                }
                None => {
                    let credential = settings.load(config.domain, &config.domain_tag, prefix, calendar())?;
                    let session = (settings.session()?, settings.plugins_of());
                    let security = Security::configure(credential, session, &mut config)?;
                    crate::process::note_own_prefix(config.prefix);
                    (Some(security), settings.trusts_host())
                }
            },
        };
        #[cfg(not(feature = "security"))]
        let (security, trusts_host) = (None, false);
        let core = Arc::new(ParticipantCore::new(Arc::clone(&domain) as Arc<_>, config, security, trusts_host));
        #[cfg(feature = "security")]
        if let Some(security) = &core.security {
            security.set_participant(Arc::downgrade(&core) as _);
        }
        let defaults = Defaults::default();
        let state = ParticipantState {
            qos,
            defaults,
            publishers: WeakList::default(),
            subscribers: WeakList::default(),
            listener: None,
        };
        let condition = StatusCondition::new(Arc::new(NoStatuses(Arc::clone(&domain) as Arc<_>)));
        let is_enabled = self.is_enabled.unwrap_or_else(autoenables);
        let handle = Mutex::new(Some(handle));
        let inner = ParticipantInner {
            core,
            domain,
            handle,
            condition,
            ignore_local: self.ignore_local,
            is_enabled: AtomicBool::new(is_enabled),
            state: Mutex::new(state),
        };
        let inner = Arc::new(inner);
        let me = Arc::downgrade(&inner);
        let find = move || me.upgrade().map(|inner| Entity::DomainParticipant(DomainParticipant { inner }));
        inner.condition.set_entity(find);
        if is_enabled {
            inner.join();
        }
        let mut participants = lock(&PARTICIPANTS);
        participants.retain(|participant| participant.strong_count() > 0);
        participants.push(Arc::downgrade(&inner));
        drop(participants);
        Ok(DomainParticipant { inner })
    }
}

/// The oldest participant of this process in this domain.
pub(crate) fn lookup(domain: u32) -> Option<DomainParticipant> {
    let participants: Vec<_> = lock(&PARTICIPANTS).clone();
    // Upgraded without the lock, because a handle that is dropped here may be the last one.
    let mut participants = participants.iter().filter_map(Weak::upgrade).map(|inner| DomainParticipant { inner });
    participants.find(|participant| participant.domain() == DomainId(domain))
}

pub(crate) fn autoenables() -> bool {
    AUTOENABLES.load(Ordering::SeqCst)
}

pub(crate) fn set_autoenables(autoenables: bool) {
    AUTOENABLES.store(autoenables, Ordering::SeqCst);
}

pub(crate) fn default_qos() -> ParticipantQos {
    lock(&DEFAULT_QOS).clone().unwrap_or_default()
}

pub(crate) fn set_default_qos(qos: ParticipantQos) -> Result<(), Error> {
    qos::check_participant(&qos)?;
    *lock(&DEFAULT_QOS) = Some(qos);
    Ok(())
}
