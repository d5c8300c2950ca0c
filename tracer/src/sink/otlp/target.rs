//! Where spans are sent to.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use ureq::http::{HeaderName, HeaderValue, Uri};

/// Path of the OTLP/HTTP receiver for spans.
const PATH: &str = "/v1/traces";

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("{0:?} is no URL; write it as http://HOST:PORT, as in http://127.0.0.1:4318")]
    NotAUrl(String),
    #[error(
        "{0:?}: tracer speaks OTLP over plain HTTP; let it send to a collector on this host, which forwards over TLS"
    )]
    NotHttp(String),
    #[error("{0:?} is no header; write NAME=VALUE, as in x-tenant=ops")]
    Header(String),
}

/// A receiver's address.
#[derive(Clone, Debug)]
pub struct Target {
    url: Uri,
    headers: Vec<Header>,
}

/// A header for each request. What it says may be secret: it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Header(HeaderName, HeaderValue);

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.0)
    }
}

impl FromStr for Header {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let header = || {
            let (name, value) = text.split_once('=')?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some(Self(name.trim().parse().ok()?, value))
        };
        // The value may be secret even where the name is wrong.
        let name = text.split('=').next().unwrap_or_default();
        header().ok_or_else(|| TargetError::Header(name.into()))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    /// As the exporters of OpenTelemetry: a URL without a path means `/v1/traces` there.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let uri = |text: &str| {
            let uri: Uri = text.parse().ok()?;
            uri.authority().is_some().then_some(uri)
        };
        let bad = || TargetError::NotAUrl(text.into());
        let url = uri(text).ok_or_else(bad)?;
        match url.scheme_str() {
            Some("http") => {}
            Some(_) => return Err(TargetError::NotHttp(text.into())),
            None => return Err(bad()),
        }
        let url = match url.path() {
            "" | "/" if url.query().is_none() => {
                uri(&format!("{}{PATH}", text.trim_end_matches('/'))).ok_or_else(bad)?
            }
            _ => url,
        };
        Ok(Self {
            url,
            headers: Vec::new(),
        })
    }
}

impl Target {
    /// The same with these headers.
    pub fn with_headers(mut self, headers: &[Header]) -> Self {
        self.headers = headers.to_vec();
        self
    }

    pub(super) const fn url(&self) -> &Uri {
        &self.url
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers.iter().map(|Header(name, value)| (name, value))
    }
}

/// Without user and password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.authority().map_or("", |a| a.as_str());
        let host = host.rsplit('@').next().unwrap_or(host);
        write!(f, "http://{host}{}", self.url.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_means_the_usual_one() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
            ("http://c/otlp/v1/traces", "http://c/otlp/v1/traces"),
        ] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.url().to_string(), url);
        }
        let secret: Target = "http://me:secret@c:4318".parse().expect("a URL");
        assert_eq!(secret.to_string(), "http://c:4318/v1/traces");
    }

    #[test]
    fn what_is_no_url_says_how_to_write_one() {
        for text in ["", "4318", "localhost:4318", "http://", "/v1/traces", "a b"] {
            let error = text.parse::<Target>().expect_err(text).to_string();
            assert!(error.contains("http"), "{text}: {error}");
        }
        let error = "https://c:4318".parse::<Target>().expect_err("TLS");
        assert!(matches!(error, TargetError::NotHttp(_)));
    }

    #[test]
    fn headers_keep_their_values_to_themselves() {
        let header: Header = "Authorization = Bearer x=y".parse().expect("a header");
        assert_eq!(format!("{header:?}"), "authorization=…");
        assert_eq!(header.1.to_str().expect("text"), "Bearer x=y");
        let error = "bad name=secret".parse::<Header>().expect_err("a space");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!("novalue".parse::<Header>().is_err());
    }
}
