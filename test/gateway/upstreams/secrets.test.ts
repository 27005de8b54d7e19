import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { ApiError } from "../../../src/lib/kubernetes/api-error.ts";
import { openSecret, SecretError, type Secret } from "../../../src/gateway/upstreams/secrets.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { rejectionOf } from "../../support/rejection.ts";

async function value(secret: Secret): Promise<string> {
  return await secret.read();
}

async function problem(secret: Secret): Promise<string> {
  return (await rejectionOf(value(secret), SecretError)).message;
}

describe("secret in the environment", () => {
  const open = (env: NodeJS.ProcessEnv): Secret => openSecret({ env: "ACME_KEY" }, { env, now: () => 0 });

  it("is read at every request", async () => {
    const env: NodeJS.ProcessEnv = { ACME_KEY: " one\n" };
    const secret = open(env);
    assert.equal(await value(secret), "one");
    env["ACME_KEY"] = "two";
    assert.equal(await value(secret), "two");
  });

  it("is named when it is missing, empty or odd, without its value", async () => {
    assert.equal(await problem(open({})), "the environment variable ACME_KEY is not set");
    assert.equal(await problem(open({ ACME_KEY: "\n" })), "the environment variable ACME_KEY is empty");
    const odd = "the environment variable ACME_KEY holds characters that no header can carry";
    assert.equal(await problem(open({ ACME_KEY: "a\r\nhost: x" })), odd);
    assert.equal(await problem(open({ ACME_KEY: "schlüssel" })), odd);
  });
});

describe("secret in a file", () => {
  it("is read again when the file changes, looking once a second at most", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "key");
    await writeFile(path, "one\n");
    const clock = { ms: 0 };
    const secret = openSecret({ file: path }, { env: {}, now: () => clock.ms });
    const first = secret.read();
    assert.equal(secret.read(), first, "two requests, one look");
    assert.equal(await first, "one");
    assert.equal(secret.read(), "one", "no wait");
    await writeFile(path, "two");
    clock.ms = 999;
    assert.equal(secret.read(), "one");
    clock.ms = 1000;
    assert.equal(await secret.read(), "two");
  });

  it("follows links that are swapped", async () => {
    await using dir = await tempDir();
    for (const name of ["one", "two"]) await writeFile(join(dir.path, name), name);
    const link = join(dir.path, "link");
    await symlink("one", link);
    const clock = { ms: 0 };
    const secret = openSecret({ file: link }, { env: {}, now: () => clock.ms });
    assert.equal(await secret.read(), "one");
    await symlink("two", join(dir.path, "next"));
    await rename(join(dir.path, "next"), link);
    clock.ms = 1000;
    assert.equal(await secret.read(), "two");
  });

  it("is named when it cannot be used, and taken as soon as it can", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "key");
    const clock = { ms: 0 };
    const secret = openSecret({ file: path }, { env: {}, now: () => clock.ms });
    const look = async (): Promise<string> => {
      clock.ms += 1000;
      return await problem(secret);
    };
    assert.equal(await look(), `the file ${path} does not exist`);
    assert.throws(() => secret.read(), SecretError, "no second look within the second");
    await writeFile(path, "");
    assert.equal(await look(), `the file ${path} is empty`);
    await writeFile(path, "x".repeat(20_000));
    assert.equal(await look(), `the file ${path} holds no key: it is larger than 16 KiB, the limit of such a file`);
    await rm(path);
    await mkdir(path);
    assert.equal(await look(), `the file ${path} holds no key: it is no plain file`);
    await rm(path, { recursive: true });
    await promisify(execFile)("mkfifo", [path]);
    assert.equal(await look(), `the file ${path} holds no key: it is no plain file`);
    await rm(path);
    await writeFile(path, "key");
    clock.ms += 1000;
    assert.equal(await secret.read(), "key");
    await rm(path);
    assert.equal(await look(), `the file ${path} does not exist`);
  });
});

describe("a secret of a cluster", () => {
  const source = { secretKeyRef: { name: "acme", key: "token" } };

  it("is refused where there is no cluster, with the alternatives", async () => {
    const secret = openSecret(source, { env: {}, now: () => 0 });
    assert.equal(await problem(secret), "key token of Secret acme: there is no cluster here; use env or file");
  });

  it("is read from the cluster, again after ten seconds, and kept while the API server does not answer", async () => {
    const clock = { ms: 0 };
    let answer: string | undefined | Error;
    let reads = 0;
    const readSecret = async (name: string, key: string): Promise<string | undefined> => {
      assert.deepEqual([name, key], ["acme", "token"]);
      reads += 1;
      if (answer instanceof Error) throw answer;
      return answer;
    };
    const secret = openSecret(source, { env: {}, now: () => clock.ms, readSecret });
    assert.equal(await problem(secret), "key token of Secret acme does not exist");
    answer = "k1\n";
    assert.equal(await problem(secret), "key token of Secret acme does not exist", "it was asked just now");
    clock.ms = 10_001;
    assert.equal(await secret.read(), "k1");
    answer = new Error("connect ECONNREFUSED");
    clock.ms = 20_002;
    assert.equal(await secret.read(), "k1");
    assert.equal(await secret.read(), "k1");
    assert.equal(reads, 3);
    answer = new ApiError(403, "Forbidden", "secrets acme is forbidden");
    clock.ms = 30_003;
    assert.match((await problem(secret)) ?? "", /^key token of Secret acme cannot be read: .*forbidden/);
  });
});
