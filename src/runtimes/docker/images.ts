import { imageReference, repositoryOf } from "../../api/image-reference.ts";
import type { ImageInspectInfo } from "dockerode";
import { LineCutter } from "../log-lines.ts";
import type { Preparation } from "../runtime.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import { DaemonRefusal, type Daemon } from "./daemon.ts";
import { pullFailure, type PullFailure } from "./pull-failure.ts";
import { PullProgress } from "./pull-progress.ts";
import { registryAuth } from "./registry-auth.ts";

const firstRetryMs = 2000;
const slowestRetryMs = 300_000;
const tellMs = 1000;

/** One image that is being fetched, or could not be. */
interface Job {
  /** Why each slot wants it: what another slot wants is no reason to try again for this one. */
  readonly attempts: Map<string, string>;
  readonly progress: PullProgress;
  failures: number;
  failure: PullFailure | undefined;
  /** Until the next try, after a failure that may pass; then whoever still wants the image begins it. */
  retry: NodeJS.Timeout | undefined;
  retryAt: Date | undefined;
  isDue: boolean;
}

/**
 * Fetches images in the background, each once however many slots wait for it. What is not fetched twice is the daemon's
 * to say: Docker goes on within a layer that broke off, as often as its `max-download-attempts` says, and keeps nothing
 * of a pull that failed or was left (https://github.com/moby/moby/issues/26146); Podman keeps whole layers.
 */
export class Images {
  readonly #daemon: Daemon;
  readonly #env: NodeJS.ProcessEnv;
  readonly #onSlot: (slot: string) => void;
  readonly #jobs = new Map<string, Job>();
  /** Who wants to hear of an image. */
  readonly #waiting = new Map<string, Set<string>>();
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(options: { daemon: Daemon; env: NodeJS.ProcessEnv; onSlot: (slot: string) => void }) {
    this.#daemon = options.daemon;
    this.#env = options.env;
    this.#onSlot = options.onSlot;
  }

  /**
   * Whether the image is there; when it is not, fetching begins or goes on. `attempt` names why this slot wants it:
   * another one tries again what only a person could mend.
   */
  async prepare(slot: string, image: string, attempt: string): Promise<Preparation> {
    const job = this.#jobs.get(image);
    const isAnother = job?.failure !== undefined && job.attempts.get(slot) !== attempt;
    if (job !== undefined && (isAnother || job.isDue)) this.#drop(image, job);
    else if (job !== undefined) return this.#join(slot, image, attempt, job);
    const found = await this.#inspect(image);
    if (found instanceof DaemonRefusal) return { state: "failed", ...pullFailure(image, found) };
    if (found !== undefined) {
      const digest = digestOf(image, found.RepoDigests ?? []);
      return { state: "ready", ...(digest === undefined ? {} : { digest }) };
    }
    const before = isAnother ? undefined : job?.failures;
    return this.#join(slot, image, attempt, this.#jobs.get(image) ?? this.#start(image, job?.attempts, before));
  }

  /** Undefined when it is not here, a refusal when the daemon takes that for no image's name or cannot look. */
  async #inspect(image: string): Promise<ImageInspectInfo | DaemonRefusal | undefined> {
    if (!imageReference.test(image)) return new DaemonRefusal(400, "invalid reference format");
    try {
      return await this.#daemon.find((api) => api.getImage(image).inspect(), "brief");
    } catch (error) {
      if (error instanceof DaemonRefusal) return error;
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    for (const { retry } of this.#jobs.values()) clearTimeout(retry);
    await Promise.all(this.#running);
  }

  #join(slot: string, image: string, attempt: string, job: Job): Preparation {
    job.attempts.set(slot, attempt);
    const waiting = this.#waiting.get(image) ?? new Set();
    this.#waiting.set(image, waiting.add(slot));
    const { failure, retryAt } = job;
    if (failure !== undefined) return { state: "failed", ...failure, ...(retryAt === undefined ? {} : { retryAt }) };
    const { progress } = job;
    const message = `the image ${image} is being fetched${troubleOf(progress)}`;
    return { state: "fetching", message, progress: progress.read() };
  }

  #start(image: string, attempts: ReadonlyMap<string, string> = new Map(), failures = 0): Job {
    const job: Job = {
      attempts: new Map(attempts),
      progress: new PullProgress(),
      failures,
      failure: undefined,
      retry: undefined,
      retryAt: undefined,
      isDue: false,
    };
    this.#jobs.set(image, job);
    const running = this.#pull(image, job).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return job;
  }

  async #pull(image: string, job: Job): Promise<void> {
    const timer = setInterval(() => this.#tell(image), tellMs).unref();
    try {
      await this.#fetch(image, job.progress);
      // Else it would be fetched again at once, and again.
      if ((await this.#inspect(image)) === undefined) throw new Error("it was fetched, and is not there");
      this.#drop(image, job);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      job.failure = pullFailure(image, error);
      job.failures += 1;
      if (!job.failure.isTerminal) {
        const waitMs = Math.min(slowestRetryMs, firstRetryMs * 2 ** (job.failures - 1));
        job.retryAt = new Date(Date.now() + waitMs);
        job.retry = setTimeout(() => {
          job.isDue = true;
          this.#tell(image);
        }, waitMs).unref();
      }
    } finally {
      clearInterval(timer);
      this.#tell(image);
    }
  }

  async #fetch(image: string, progress: PullProgress): Promise<void> {
    const { signal } = this.#closing;
    const authconfig = await registryAuth(image, this.#env, signal);
    const stream = await this.#daemon.ask(
      (api) =>
        // Without a tag the daemon would fetch every one.
        api.createImage(authconfig, {
          fromImage: image === repositoryOf(image) ? `${image}:latest` : image,
          abortSignal: signal,
        }),
      "asAborted",
    );
    const cutter = new LineCutter();
    try {
      for await (const chunk of stream) for (const line of cutter.push(Buffer.from(chunk))) progress.take(line);
    } catch (error) {
      throw new RuntimeUnavailable(`the pull of ${image} was cut`, { cause: error });
    }
    progress.take(cutter.flush());
    if (progress.error !== undefined) throw new DaemonRefusal(500, progress.error);
  }

  #drop(image: string, job: Job): void {
    clearTimeout(job.retry);
    this.#jobs.delete(image);
  }

  #tell(image: string): void {
    if (this.#closing.signal.aborted) return;
    for (const slot of this.#waiting.get(image) ?? []) this.#onSlot(slot);
    if (!this.#jobs.has(image)) this.#waiting.delete(image);
  }
}

/** A pull that hangs has no end, and unpacking is silent too: how long it has been so is for people to judge. */
function troubleOf(progress: PullProgress): string {
  const minutes = Math.floor(progress.silentMs() / 60_000);
  if (minutes > 0) return `; the container engine has said nothing of it for ${minutes} min`;
  return progress.isBroken ? "; its connection broke, and the container engine goes on in a moment" : "";
}

/** The digest under which the image's own repository knows it; a locally built one has none. */
function digestOf(image: string, digests: readonly string[]): string | undefined {
  const repository = repositoryOf(image);
  const own = digests.find((digest) => isSame(repositoryOf(digest), repository));
  return own?.split("@")[1];
}

/** Docker and Podman write Docker Hub's images in a short and a long form. */
function isSame(one: string, other: string): boolean {
  const plain = (name: string): string => name.replace(/^docker\.io\/(library\/)?/, "");
  return plain(one) === plain(other);
}
