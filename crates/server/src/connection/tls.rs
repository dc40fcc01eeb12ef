//! TLS: the server's certificate, and the certificates that clients must have.

use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::path::PathBuf;
use std::sync::Arc;

/// The setting that decides if clients need certificates (`tls-auth-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthClients {
    /// Certificates are required.
    Yes,
    /// Certificates are not requested.
    No,
    /// Certificates are optional; one that is shown must be valid.
    Optional,
}

/// The files that TLS needs.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate and its chain, in PEM.
    pub certificates: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Root certificates for those of clients, in PEM.
    pub client_roots: Option<PathBuf>,
}

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has other contents.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error in it.
        why: String,
    },
    /// Certificates and key do not fit together.
    #[error("certificates: {0}")]
    Certificates(String),
    /// Clients must show certificates, and no root certificates are given.
    #[error("tls-auth-clients needs tls-ca-cert-file; or set tls-auth-clients no")]
    NoRoots,
}

/// The TLS configuration with which new connections begin.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    clients: AuthClients,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(files: TlsFiles, clients: AuthClients) -> Result<Tls, TlsError> {
        let config = RwLock::new(read(&files, clients)?);
        Ok(Tls {
            files,
            clients,
            config,
        })
    }

    /// Reads the files again, for connections from then on.
    ///
    /// # Errors
    /// See [`TlsError`]; the old configuration stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        *self.config.write() = read(&self.files, self.clients)?;
        Ok(())
    }

    /// Creates the server's side of a new connection.
    ///
    /// # Errors
    /// The configuration does not allow any.
    pub fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config.read()))
    }
}

fn read(files: &TlsFiles, clients: AuthClients) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = read_certificates(&files.certificates)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| TlsError::File {
        path: files.key.clone(),
        why: error.to_string(),
    })?;
    let wrong = |error: &dyn std::fmt::Display| TlsError::Certificates(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let builder = if clients == AuthClients::No {
        builder.with_no_client_auth()
    } else {
        let path = files.client_roots.as_ref().ok_or(TlsError::NoRoots)?;
        let mut roots = RootCertStore::empty();
        for root in read_certificates(path)? {
            roots.add(root).map_err(|error| wrong(&error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = match clients {
            AuthClients::Optional => verifier.allow_unauthenticated(),
            _ => verifier,
        };
        builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
    };
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&error))?;
    Ok(Arc::new(config))
}

fn read_certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error: &dyn std::fmt::Display| TlsError::File {
        path: path.clone(),
        why: error.to_string(),
    };
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let all: Vec<_> = all
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error))?;
    // A file of anything else parses, too, and has none.
    match all.is_empty() {
        true => Err(wrong(&"the file has no certificate")),
        false => Ok(all),
    }
}
