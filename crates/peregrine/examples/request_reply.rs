//! Requests and replies between two tasks of tokio: `cargo run -p peregrine --example request_reply`
//!
//! The futures of Peregrine run on any executor, without a runtime of their own or a feature. No call of this example
//! blocks a thread of tokio, including `close_async` at the end.
#![forbid(unsafe_code)]

use std::time::Duration;

use peregrine::{DataReader, DataWriter, DdsType, DomainParticipant, Error};

#[derive(Clone, Debug, DdsType)]
struct Request {
    id: u32,
    numbers: Vec<i32>,
}

#[derive(Clone, Debug, DdsType)]
struct Reply {
    id: u32,
    sum: i64,
}

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (server, client) = (DomainParticipant::new(0)?, DomainParticipant::new(0)?);
    let requests = server.topic::<Request>("requests")?.reader_builder().reliable().keep_all().build()?;
    let replies = server.topic::<Reply>("replies")?.writer_builder().reliable().keep_all().build()?;
    let serving = tokio::spawn(serve(requests, replies));

    let requests = client.topic::<Request>("requests")?.writer_builder().reliable().keep_all().build()?;
    let replies = client.topic::<Reply>("replies")?.reader_builder().reliable().keep_all().build()?;
    tokio::time::timeout(PATIENCE, async {
        requests.wait_for_readers_async(1).await?;
        replies.wait_for_writers_async(1).await
    })
    .await??;

    for id in 0..3 {
        requests.write_async(&Request { id, numbers: vec![1, 2, id as i32] }).await?;
        let reply = tokio::time::timeout(PATIENCE, reply_to(id, &replies)).await??;
        println!("reply to {id}: {}", reply.sum);
    }

    // Leaves the domain when all samples are acknowledged. The task of the server ends because its reader is deleted.
    client.close_async(PATIENCE).await?;
    server.close_async(PATIENCE).await?;
    match serving.await? {
        Err(Error::AlreadyDeleted) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn serve(requests: DataReader<Request>, replies: DataWriter<Reply>) -> Result<(), Error> {
    loop {
        if let Some(Request { id, numbers }) = requests.next().await?.into_value() {
            let sum = numbers.into_iter().map(i64::from).sum();
            replies.write_async(&Reply { id, sum }).await?;
        }
    }
}

/// The reader also receives replies to requests of other clients.
async fn reply_to(id: u32, replies: &DataReader<Reply>) -> Result<Reply, Error> {
    loop {
        match replies.next().await?.into_value() {
            Some(reply) if reply.id == id => return Ok(reply),
            _ => {}
        }
    }
}
