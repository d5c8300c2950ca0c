//! The near end of an output's queue, with the thread at its far end.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::OpenError;
use super::encode::Encode;
use super::queue::{Chunk, Queue, Status};
use super::worker::{Place, Worker};
use crate::sink::series::Series;

/// Chunks go in here and to a file, by a thread of their own.
pub struct Feed<C: Chunk> {
    queue: Arc<Queue<C>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: Chunk> Feed<C> {
    /// Starts the thread. `name` is for messages.
    pub fn start(
        status: Arc<Status>,
        encoder: impl Encode<Chunk = C>,
        place: Place,
        series: Option<Series>,
        name: String,
    ) -> Result<Self, OpenError> {
        let queue = Arc::new(Queue::new(status));
        let worker = Worker::new(Arc::clone(&queue), encoder, place, series, name.clone());
        let thread = thread::Builder::new()
            .name("output".into())
            .spawn(move || worker.run());
        let thread = thread.map_err(|cause| OpenError::Start {
            name,
            cause,
            remedy: "raise the limit of processes (ulimit -u)",
        })?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    pub fn status(&self) -> &Arc<Status> {
        &self.queue.status
    }

    pub fn check(&self) -> io::Result<()> {
        self.queue.check()
    }

    /// Takes whole records. Returns an empty chunk to be filled, where there is one.
    pub fn push(&self, chunk: C) -> io::Result<Option<C>> {
        self.queue.push(chunk)
    }

    /// What follows goes to the next file.
    pub fn next_part(&self) -> io::Result<()> {
        self.queue.push_part()
    }

    /// Waits until all is written, or cannot be, and the thread has ended.
    pub fn finish(&mut self) -> io::Result<()> {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            return Err(io::Error::other("the writing thread ended unexpectedly"));
        }
        self.queue.check()
    }
}

impl<C: Chunk> Drop for Feed<C> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Nobody is left to take the error.
            let _ = self.finish();
        }
    }
}
