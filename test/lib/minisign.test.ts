import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parseSecretKey, signatureText } from "../../hack/release/signature.ts";
import { fileDigest } from "../../src/lib/file-digest.ts";
import { parsePublicKey, verifySignature } from "../../src/lib/minisign.ts";
import { tempDir } from "../support/temp-dir.ts";

// Debian's minisign 0.11 has made the keys and signatures in test/fixtures/minisign, except for signed.txt.ours.minisig,
// which it has verified.
const fixtures = fileURLToPath(new URL("../fixtures/minisign", import.meta.url));
const text = (name: string): string => readFileSync(join(fixtures, name), "utf8");
const digest = createHash("blake2b512").update(text("signed.txt")).digest();
const key = parsePublicKey(text("key.pub"), "key.pub");
const signature = text("signed.txt.minisig");
const verify = (change: { digest?: Buffer; signature?: string } = {}): string =>
  verifySignature(key, { name: "signed.txt", digest, signature, ...change });
const refusal = (message: string) => ({ name: "SignatureError", message });

describe("a signature of minisign", () => {
  it("is verified, and has a trusted comment", () => assert.equal(verify(), "a trusted comment"));

  it("is verified with carriage returns, and with another untrusted comment", () => {
    assert.equal(verify({ signature: signature.replaceAll("\n", "\r\n") }), "a trusted comment");
    assert.equal(verify({ signature: signature.replace("nothing", "anything") }), "a trusted comment");
  });

  it("is refused where the text is another one", () => {
    const [first = "", second = "", third = "", fourth = ""] = signature.split("\n");
    for (const other of [
      "",
      "<html>not found</html>\n",
      `${first}\n${second}\n`,
      [first, second, third, fourth.slice(4), ""].join("\n"),
      [first, `!${second.slice(1)}`, third, fourth, ""].join("\n"),
      [first, second, third, fourth, "more"].join("\n"),
    ])
      assert.throws(
        () => verify({ signature: other }),
        refusal("the signature of signed.txt is not one of minisign"),
        other,
      );
  });

  it("is refused in the old form, which covers the file itself", async () => {
    const old = text("signed.txt.old.minisig");
    const message = "the signature of signed.txt has minisign's old form: sign without `-l`";
    assert.throws(() => verify({ signature: old }), refusal(message));
  });

  it("is refused from another key, and names both", async () => {
    const other = text("signed.txt.other.minisig");
    const { id } = parsePublicKey(text("other.pub"), "other.pub");
    const message = `signed.txt is signed by the key ${id}, and not by ${key.id}`;
    assert.throws(() => verify({ signature: other }), refusal(message));
  });

  it("is refused from another key with the same id", async () => {
    const packed = Buffer.from(text("other.pub").split("\n")[1] ?? "", "base64");
    const forged = Buffer.concat([packed.subarray(0, 2), Buffer.alloc(8), packed.subarray(10)]);
    forged.writeBigUInt64LE(BigInt(`0x${key.id}`), 2);
    const other = parsePublicKey(forged.toString("base64"), "other");
    assert.throws(
      () => verifySignature(other, { name: "signed.txt", digest, signature }),
      refusal(`signed.txt is not the file that the key ${key.id} has signed`),
    );
  });

  it("is refused for an altered file", async () => {
    await using directory = await tempDir();
    const altered = join(directory.path, "signed.txt");
    await writeFile(altered, `${text("signed.txt")}.`);
    const other = await fileDigest(altered, "blake2b512");
    const message = `signed.txt is not the file that the key ${key.id} has signed`;
    assert.throws(() => verify({ digest: other }), refusal(message));
  });

  it("is refused with an altered trusted comment", () => {
    const altered = signature.replace("a trusted comment", "another comment");
    const message = "the trusted comment in the signature of signed.txt was altered";
    assert.throws(() => verify({ signature: altered }), refusal(message));
  });
});

describe("a public key of minisign", () => {
  it("is its file, or that file's second line", async () => {
    const line = text("key.pub").split("\n")[1] ?? "";
    assert.equal(parsePublicKey(line, "update_key").id, key.id);
    assert.match(text("key.pub"), new RegExp(`public key ${key.id}\n`));
  });

  it("is refused where the text is another one", async () => {
    for (const other of ["", "RWQ", text("key.sec"), text("signed.txt.minisig")])
      assert.throws(() => parsePublicKey(other, "update_key"), refusal("update_key is not a public key of minisign"));
  });
});

describe("a secret key of minisign", () => {
  it("signs as minisign does, and knows its public half", async () => {
    const secret = parseSecretKey(text("key.sec"), "key.sec");
    assert.equal(secret.publicText, text("key.pub"));
    const own = signatureText(secret, digest, "file:signed.txt");
    assert.equal(own, text("signed.txt.ours.minisig"));
    assert.equal(verify({ signature: own }), "file:signed.txt");
    assert.equal(signatureText(secret, digest, "a trusted comment").split("\n")[1], signature.split("\n")[1]);
  });

  it("is refused with a password, when damaged, and where the text is another one", async () => {
    const secret = text("key.sec");
    const changed = (at: number, byte: number): string => {
      const packed = Buffer.from(secret.split("\n")[1] ?? "", "base64");
      packed[at] = byte;
      return `comment\n${packed.toString("base64")}\n`;
    };
    for (const [other, message] of [
      [changed(2, 0x53), "k has a password; `minisign -C -W -s k` removes it"],
      [changed(70, 0), "k is damaged: its two halves do not belong together"],
      [text("key.pub"), "k is not a secret key of minisign"],
      ["", "k is not a secret key of minisign"],
    ] as const)
      assert.throws(() => parseSecretKey(other, "k"), { message });
  });
});

describe("the digest of a file", () => {
  it("is that of the whole file, and can be aborted", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "large");
    await writeFile(path, Buffer.alloc(3_000_000, 7));
    assert.equal(
      (await fileDigest(path, "sha256")).toString("hex"),
      "892f2fe04ec507da2fe21530851fc8c60ae8a0d9b126b61d7168fd5dbb209a1b",
    );
    await assert.rejects(fileDigest(path, "sha256", AbortSignal.abort()), { name: "AbortError" });
    await assert.rejects(fileDigest(join(directory.path, "none"), "sha256"), { code: "ENOENT" });
  });
});
