import { createPublicKey, verify as verifyEd25519, type KeyObject } from "node:crypto";

/**
 * Signatures in minisign's format, https://jedisct1.github.io/minisign/: Ed25519 over the BLAKE2b-512 digest of the file,
 * and once more over that signature with its trusted comment. Older signatures, over the file itself, are refused.
 */

/** The message is one line, which names the file. */
export class SignatureError extends Error {
  override name = "SignatureError";
}

export interface MinisignPublicKey {
  /** Key id: 16 hexadecimal digits, as minisign prints it. */
  readonly id: string;
  readonly key: KeyObject;
}

export interface SignedFile {
  /** For messages. */
  readonly name: string;
  /** `fileDigest(path, "blake2b512")`. */
  readonly digest: Uint8Array;
  /** The text of its `.minisig` file. */
  readonly signature: string;
}

/** The DER form of an Ed25519 public key before its 32 bytes (RFC 8410). */
const derPrefix = Buffer.from("302a300506032b6570032100", "hex");
const untrusted = "untrusted comment: ";
const trusted = "trusted comment: ";

/**
 * The public key in a file of `minisign -G`, or its second line alone, as `berth.toml` has it. `name` is for messages.
 * Throws SignatureError.
 */
export function parsePublicKey(text: string, name: string): MinisignPublicKey {
  const lines = linesOf(text);
  const packed = base64(lines.length === 1 ? lines[0] : lines[1], 42);
  const isKey = lines.length === 1 || (lines.length === 2 && lines[0]?.startsWith(untrusted) === true);
  if (!isKey || packed?.toString("latin1", 0, 2) !== "Ed")
    throw new SignatureError(`${name} is not a public key of minisign`);
  const key = createPublicKey({
    key: Buffer.concat([derPrefix, packed.subarray(10)]),
    format: "der",
    type: "spki",
  });
  return { id: keyId(packed), key };
}

/**
 * Checks that the key has signed the file, and returns the signature's trusted comment. Throws SignatureError: for a text
 * that is no signature, another key, an altered file, and an altered trusted comment.
 */
export function verifySignature(key: MinisignPublicKey, { name, digest, signature }: SignedFile): string {
  const lines = linesOf(signature);
  const packed = base64(lines[1], 74);
  const overComment = base64(lines[3], 64);
  const isSignature = lines.length === 4 && lines[0]?.startsWith(untrusted) && lines[2]?.startsWith(trusted);
  const algorithm = packed?.toString("latin1", 0, 2);
  if (isSignature !== true || packed === undefined || overComment === undefined || !/^ED$/i.test(algorithm ?? ""))
    throw new SignatureError(`the signature of ${name} is not one of minisign`);
  if (algorithm !== "ED")
    throw new SignatureError(`the signature of ${name} has minisign's old form: sign without \`-l\``);
  const id = keyId(packed);
  if (id !== key.id) throw new SignatureError(`${name} is signed by the key ${id}, and not by ${key.id}`);
  const signed = packed.subarray(10);
  if (!verifyEd25519(undefined, digest, key.key, signed))
    throw new SignatureError(`${name} is not the file that the key ${id} has signed`);
  const comment = (lines[2] ?? "").slice(trusted.length);
  if (!verifyEd25519(undefined, Buffer.concat([signed, Buffer.from(comment)]), key.key, overComment))
    throw new SignatureError(`the trusted comment in the signature of ${name} was altered`);
  return comment;
}

/** minisign writes the 8 bytes after the algorithm as one little-endian number. */
export function keyId(packed: Buffer): string {
  return packed.readBigUInt64LE(2).toString(16).toUpperCase().padStart(16, "0");
}

function linesOf(text: string): readonly string[] {
  return text.replace(/\n$/, "").split(/\r?\n/);
}

/** Undefined for a text that is not exactly so many bytes in base64. */
function base64(text: string | undefined, bytes: number): Buffer | undefined {
  const line = text?.trim() ?? "";
  const decoded = Buffer.from(line, "base64");
  return decoded.length === bytes && decoded.toString("base64") === line ? decoded : undefined;
}
