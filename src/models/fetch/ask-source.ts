import { findAddress, type Address } from "./address.ts";
import { FetchError } from "./fetch-error.ts";
import { hubFrom } from "./hub.ts";
import { proxiesFrom } from "./proxies.ts";
import { parseSource } from "./source.ts";

/**
 * The facts that the server of a source gives about its file, without fetching the file. Rejects with FetchError or
 * TransferError. `HF_ENDPOINT`, `HF_TOKEN` and the variables of proxies are read from `env`.
 */
export async function askSource(
  text: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<Pick<Address, "sizeBytes" | "sha256" | "commit">> {
  const source = parseSource(text);
  if (source.scheme !== "hf" && source.scheme !== "https")
    throw new FetchError("SourceRefused", `${text} has no server that could be asked`);
  const network = {
    hub: hubFrom(env),
    proxies: proxiesFrom(env),
    isOpen: true,
    connectMs: 15_000,
    stallMs: 15_000,
    retryMs: 250,
  };
  const { sizeBytes, sha256, commit } = await findAddress(source, network, signal);
  return { sizeBytes, sha256, commit };
}
