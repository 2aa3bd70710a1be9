//! Certificates for servers and clients of tests.
//!
//! Invariant: the files of an authority live as long as the authority.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// An issuer of certificates. Removes its files when dropped.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    file: String,
    own_key: String,
    issued: AtomicU32,
}

/// A certificate and its key, in files.
#[derive(Clone, Debug)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    /// Creates an authority of its own, which nothing else trusts.
    ///
    /// # Panics
    /// Panics if its folder cannot be written.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("leasehold-ca-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder takes certificates");
        let mut params = CertificateParams::default();
        // A certificate that has the name of its issuer counts as signed by itself.
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.self_signed(&key).expect("an authority signs itself");
        let file = write(&folder, "ca.pem", &certificate.pem());
        let own_key = write(&folder, "ca.key", &key.serialize_pem());
        Self { issuer: Issuer::new(params, key), folder, file, own_key, issued: AtomicU32::new(0) }
    }

    /// Returns the authority's own certificate, which signs itself, as a server shows the one that `openssl req -x509` makes.
    #[must_use]
    pub fn itself(&self) -> Identity {
        Identity { certificate: self.file.clone(), key: self.own_key.clone() }
    }

    /// Returns the file with the authority's own certificate.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the folder of all files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Issues a certificate for a server of these names.
    #[must_use]
    pub fn server(&self, names: &[&str]) -> Identity {
        self.issue(names, &[ExtendedKeyUsagePurpose::ServerAuth], 2100)
    }

    /// Issues a certificate for a node of these names, which is a client of the other nodes too.
    #[must_use]
    pub fn node(&self, names: &[&str]) -> Identity {
        let purposes = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(names, &purposes, 2100)
    }

    /// Issues a certificate for a server of these names that has expired.
    #[must_use]
    pub fn expired(&self, names: &[&str]) -> Identity {
        self.issue(names, &[ExtendedKeyUsagePurpose::ServerAuth], 2001)
    }

    /// Issues a certificate for a client.
    #[must_use]
    pub fn client(&self) -> Identity {
        self.issue(&["client"], &[ExtendedKeyUsagePurpose::ClientAuth], 2100)
    }

    fn issue(&self, names: &[&str], purposes: &[ExtendedKeyUsagePurpose], end: i32) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("they are names");
        params.distinguished_name.push(DnType::CommonName, "leasehold");
        params.extended_key_usages = purposes.to_vec();
        (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(end, 1, 1));
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        Identity {
            certificate: write(&self.folder, &format!("{number}.pem"), &certificate.pem()),
            key: write(&self.folder, &format!("{number}.key"), &key.serialize_pem()),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // A leftover folder is untidy, but no reason to fail a test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Identity {
    /// Returns the file of the certificate.
    #[must_use]
    pub fn certificate_file(&self) -> &str {
        &self.certificate
    }

    /// Returns the file of the key.
    #[must_use]
    pub fn key_file(&self) -> &str {
        &self.key
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("the folder takes a file");
    path.to_str().expect("the temporary folder has a name in UTF-8").to_owned()
}
