import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** A certificate authority of one cluster, in a directory of its own; every file is named by its certificate. */
export interface Authority {
  readonly caFile: string;
  /** Signs NAME.crt with NAME.key. `names` as openssl writes them: `IP:127.0.0.1`, `DNS:localhost`. */
  issue(name: string, subject: string, use: "serverAuth" | "clientAuth", names?: readonly string[]): Promise<Issued>;
  /** A key pair that signs service accounts' tokens. */
  keyPair(name: string): Promise<{ readonly key: string; readonly publicKey: string }>;
}

interface Issued {
  readonly cert: string;
  readonly key: string;
}

/** An authority in a new directory. */
export async function makeAuthority(dir: string): Promise<Authority> {
  await mkdir(dir, { recursive: true });
  await makeKey(dir, "ca");
  const usage = "keyUsage=critical,keyCertSign,cRLSign";
  const root = ["-subj", "/CN=test", "-days", "30", "-addext", usage, "-out", "ca.crt"];
  await openssl(dir, "req", "-x509", "-new", "-key", "ca.key", ...root);
  return openAuthority(dir);
}

/** The authority that was made in that directory. */
export function openAuthority(dir: string): Authority {
  return {
    caFile: join(dir, "ca.crt"),
    async issue(name, subject, use, names = []) {
      const key = await makeKey(dir, name);
      const alternatives = names.length === 0 ? "" : `subjectAltName=${names.join(",")}\n`;
      await writeFile(join(dir, `${name}.ext`), `${alternatives}extendedKeyUsage=${use}\n`);
      await openssl(dir, "req", "-new", "-key", `${name}.key`, "-subj", subject, "-out", `${name}.csr`);
      // Numbers of their own: openssl's file of the last number breaks when two certificates are signed at once.
      const serial = `0x${randomBytes(8).toString("hex")}`;
      const by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-set_serial", serial, "-days", "30"];
      await openssl(dir, "x509", "-req", "-in", `${name}.csr`, ...by, "-extfile", `${name}.ext`, "-out", `${name}.crt`);
      return { cert: join(dir, `${name}.crt`), key };
    },
    async keyPair(name) {
      const key = await makeKey(dir, name);
      await openssl(dir, "ec", "-in", `${name}.key`, "-pubout", "-out", `${name}.pub`);
      return { key, publicKey: join(dir, `${name}.pub`) };
    },
  };
}

async function openssl(dir: string, ...args: readonly string[]): Promise<void> {
  await run("openssl", args, { cwd: dir });
}

async function makeKey(dir: string, name: string): Promise<string> {
  await openssl(dir, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", `${name}.key`);
  return join(dir, `${name}.key`);
}
