import { createPrivateKey, createPublicKey, sign as signEd25519, type KeyObject } from "node:crypto";
import { keyId } from "../../src/lib/minisign.ts";

export interface MinisignSecretKey {
  readonly id: string;
  readonly key: KeyObject;
  /** The text of its public half, as `minisign -G` writes it. */
  readonly publicText: string;
}

/** The DER form of an Ed25519 private key before its 32 bytes (RFC 8410). */
const derPrefix = Buffer.from("302e020100300506032b657004220420", "hex");

/**
 * The key in a file of `minisign -G -W`. Throws Error with one line: for another file, and for a key with a password,
 * which `minisign -C -W` removes.
 */
export function parseSecretKey(text: string, name: string): MinisignSecretKey {
  const packed = Buffer.from(text.split("\n")[1] ?? "", "base64");
  // Algorithm, derivation, checksum: 2 bytes each; then 48 of the derivation, the id, seed and public half, the checksum.
  if (packed.length !== 158 || packed.toString("latin1", 0, 2) !== "Ed")
    throw new Error(`${name} is not a secret key of minisign`);
  if (packed.readUInt16LE(2) !== 0) throw new Error(`${name} has a password; \`minisign -C -W -s ${name}\` removes it`);
  const idBytes = packed.subarray(54, 62);
  const publicHalf = packed.subarray(94, 126);
  const key = createPrivateKey({
    key: Buffer.concat([derPrefix, packed.subarray(62, 94)]),
    format: "der",
    type: "pkcs8",
  });
  if (!createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32).equals(publicHalf))
    throw new Error(`${name} is damaged: its two halves do not belong together`);
  const publicPacked = Buffer.concat([Buffer.from("Ed"), idBytes, publicHalf]);
  const id = keyId(publicPacked);
  return {
    id,
    key,
    publicText: `untrusted comment: minisign public key ${id}\n${publicPacked.toString("base64")}\n`,
  };
}

/** The text of a `.minisig` file. The same file, key and comment give the same text. `digest`: BLAKE2b-512. */
export function signatureText(secret: MinisignSecretKey, digest: Uint8Array, trustedComment: string): string {
  const signature = signEd25519(undefined, digest, secret.key);
  const overComment = signEd25519(undefined, Buffer.concat([signature, Buffer.from(trustedComment)]), secret.key);
  const idBytes = Buffer.alloc(8);
  idBytes.writeBigUInt64LE(BigInt(`0x${secret.id}`));
  return [
    `untrusted comment: signature of the key ${secret.id}`,
    Buffer.concat([Buffer.from("ED"), idBytes, signature]).toString("base64"),
    `trusted comment: ${trustedComment}`,
    overComment.toString("base64"),
    "",
  ].join("\n");
}
