import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { openSecret, SecretError, type Secret } from "../../../src/gateway/providers/secrets.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { rejectionOf } from "../../support/rejection.ts";

async function value(secret: Secret): Promise<string> {
  return await secret.read();
}

async function problem(secret: Secret): Promise<string> {
  return (await rejectionOf(value(secret), SecretError)).message;
}

it("a secret in the environment is read at every request, and named without its value where it is none", async () => {
  const env: NodeJS.ProcessEnv = {};
  const secret = openSecret({ env: "ACME_KEY" }, { env, now: () => 0 });
  const odd = "the environment variable ACME_KEY holds characters that no header can carry";
  assert.equal(await problem(secret), "the environment variable ACME_KEY is not set");
  for (const [text, read, message] of [
    [" one\n", "one"],
    ["two", "two"],
    ["\n", undefined, "the environment variable ACME_KEY is empty"],
    ["a\r\nhost: x", undefined, odd],
    ["schlüssel", undefined, odd],
  ] as const) {
    env["ACME_KEY"] = text;
    if (read === undefined) assert.equal(await problem(secret), message);
    else assert.equal(await value(secret), read);
  }
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
    await writeFile(join(dir.path, "two"), "two");
    await symlink("two", join(dir.path, "next"));
    await rename(join(dir.path, "next"), path);
    clock.ms = 999;
    assert.equal(secret.read(), "one");
    clock.ms = 1000;
    assert.equal(await secret.read(), "two", "a link that was swapped is followed");
    await writeFile(path, "three");
    clock.ms = 2000;
    assert.equal(await secret.read(), "three");
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
