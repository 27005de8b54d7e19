import type { HubListing } from "../../api/model-task.ts";
import { BlobStore } from "./blob-store.ts";
import { HeaderFiles } from "../header-files.ts";
import { FlmTool } from "./flm.ts";
import { HashThread } from "./hash-thread.ts";
import { hubFrom } from "./hub.ts";
import { listHub, type HubRepository } from "./hub-listing.ts";
import { ModelFetch } from "./model-fetch.ts";
import { ModelPulls, type ModelPullsOptions } from "./model-pulls.ts";
import { proxiesFrom } from "./proxies.ts";
import { RemoteShapes } from "./remote-shapes.ts";
import { RateLimit } from "./rate-limit.ts";

export interface ModelPullsConfig {
  readonly modelsDir: string;
  /** Names this boot of the machine. */
  readonly boot: string;
  /** `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH` and the variables of proxies are read. */
  readonly env: NodeJS.ProcessEnv;
  /** Bytes per second of all downloads together; 0: no limit. */
  readonly bytesPerSecond: number;
  /** The number of bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  readonly requested?: NonNullable<ModelPullsOptions["requested"]>;
  readonly headers?: HeaderFiles;
  readonly onError: (error: unknown) => void;
}

const connections = 4;
const connectMs = 15_000;
/** A connection without a byte for this long is replaced. */
const stallMs = 30_000;
const retryMs = 250;
const read = { leastBytes: 1024 ** 3, limitMs: 10_000 } as const;

export interface OpenedPulls extends AsyncDisposable {
  readonly store: BlobStore;
  readonly pulls: ModelPulls;
  readonly shapes: RemoteShapes;
  readonly flm: FlmTool;
  /** The models in a repository of the hub. Rejects with FetchError, or as `signal` was aborted. */
  readonly listHub: (repository: HubRepository, signal: AbortSignal) => Promise<HubListing>;
}

/** Opens the store of fetched files, and the pulls that write to it. Only one process may do so. */
export async function openModelPulls(config: ModelPullsConfig): Promise<OpenedPulls> {
  await using stack = new AsyncDisposableStack();
  const store = await BlobStore.open(config.modelsDir, config.boot);
  const hashThread = stack.use(new HashThread());
  const { reserveBytes, requested = () => [], headers = new HeaderFiles(), onError } = config;
  const network = { hub: hubFrom(config.env), proxies: proxiesFrom(config.env), connectMs, stallMs, retryMs };
  const rate = new RateLimit(config.bytesPerSecond);
  const fetch = new ModelFetch({ store, hashThread, network, rate, reserveBytes, connections, headers });
  const flm = new FlmTool(config.env);
  const pulls = stack.use(new ModelPulls({ store, fetch, hashThread, flm, requested, onError }));
  const shapes = stack.use(new RemoteShapes({ network, ...read }));
  const owned = stack.move();
  // The hub that HF_ENDPOINT names may be on this machine.
  const listed: OpenedPulls["listHub"] = async (repository, signal) =>
    await listHub(repository, { ...network, isOpen: false }, signal);
  return { store, pulls, shapes, flm, listHub: listed, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
