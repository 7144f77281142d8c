//! Reading and searching a session's log.

use procession_actors::Client;
use procession_core::{Phase, text::TextEnd};
use serde_json::Value;

use super::with_clamps;
use crate::{
    arguments::{Encoding, ReadLogArguments, Reader, SearchLogArguments},
    failure::Failure,
    json::{log_matches_value, log_page_base64, log_page_text},
};

pub(super) async fn read(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let ReadLogArguments {
        session,
        query,
        encoding,
    } = ReadLogArguments::read(&mut reader)?;
    let page = client.read_log(session, query).await?;
    if encoding == Encoding::Base64 {
        return Ok(with_clamps(log_page_base64(&page), reader));
    }
    let mut shown = log_page_text(&page, query.max_bytes, TextEnd::Open);
    if shown.is_held_back && client.inspect(session).await?.phase == Phase::Ended {
        // Read once more: the rest may have come between the page and the end.
        let page = client.read_log(session, query).await?;
        shown = log_page_text(&page, query.max_bytes, TextEnd::Closed);
    }
    Ok(with_clamps(shown.value, reader))
}

pub(super) async fn search(client: &Client, mut reader: Reader) -> Result<Value, Failure> {
    let SearchLogArguments { session, search } = SearchLogArguments::read(&mut reader)?;
    let matches = client.search_log(session, search).await?;
    Ok(with_clamps(log_matches_value(&matches), reader))
}
