import { createHash } from "node:crypto";
import { join } from "node:path";
import { CommandError } from "../../cli/client.ts";
import { fileDigest } from "../../lib/file-digest.ts";
import { parsePublicKey, SignatureError, verifySignature, type MinisignPublicKey } from "../../lib/minisign.ts";
import { readText } from "../../lib/read-text.ts";
import { nameOf, readSmall, shown, withSuffix, type Source } from "./source.ts";

/** A signature of minisign has about 350 bytes. */
const signatureLimitBytes = 4096;

/**
 * The public key of the publisher: that of the setting `update_key`, else that of the running release. Throws CommandError
 * where there is none: nothing is installed without a signature.
 */
export async function publisherKey(setting: string | undefined, root: string): Promise<MinisignPublicKey> {
  const file = join(root, "minisign.pub");
  const [text, name] = setting === undefined ? [await readText(file), file] : [setting, "update_key"];
  if (text === undefined)
    throw new CommandError(
      "update.no_key",
      "this release was published without a key, so that no update of it can be verified",
      "set update_key in berth.toml (or SVC_UPDATE_KEY) to the publisher's public key: the second line of minisign.pub, beside the releases that its publisher offers",
    );
  return await refusing(async () => parsePublicKey(text, name));
}

/** Checks the signature beside a text. Throws CommandError `update.signature`. */
export async function verifyText(key: MinisignPublicKey, source: Source, text: string): Promise<void> {
  await verify(key, source, createHash("blake2b512").update(text).digest());
}

/** Checks the signature beside `source` for the file that was copied from there. Throws CommandError `update.signature`. */
export async function verifyFile(key: MinisignPublicKey, source: Source, path: string): Promise<void> {
  await verify(key, source, await fileDigest(path, "blake2b512"));
}

async function verify(key: MinisignPublicKey, source: Source, digest: Buffer): Promise<void> {
  const signature = await readSmall(withSuffix(source, ".minisig"), signatureLimitBytes);
  await refusing(async () => {
    if (signature === undefined)
      throw new SignatureError(`${shown(source)} has no signature: there is no ${nameOf(source)}.minisig beside it`);
    const comment = verifySignature(key, { name: shown(source), digest, signature });
    // `make release` and minisign itself write it: another file of the same publisher, under this name, is not this one.
    const named = /(?:^|\s)file:(\S+)/.exec(comment)?.[1];
    if (named !== nameOf(source))
      throw new SignatureError(
        `${shown(source)} is signed as ${named ?? "a file without a name"}, and not as ${nameOf(source)}`,
      );
  });
}

async function refusing<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof SignatureError)) throw error;
    const next = "nothing was installed; ask the publisher, and set update_key where the key has changed";
    throw new CommandError("update.signature", error.message, next);
  }
}
