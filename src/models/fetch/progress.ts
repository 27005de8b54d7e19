/** The counters of a download. */
export interface DownloadProgress {
  bytesDone: number;
  bytesTotal: number | undefined;
  /** Bytes received over the network, discarded bytes included. */
  receivedBytes: number;
  stalls: number;
  /** The last failure that is being retried; undefined once bytes have come after it. */
  trouble?: string | undefined;
}

export function newProgress(): DownloadProgress {
  return { bytesDone: 0, bytesTotal: undefined, receivedBytes: 0, stalls: 0 };
}

/** The progress of one file, counted within the progress of the whole model. */
export function within(whole: DownloadProgress, before: number, total: number): DownloadProgress {
  let own: number | undefined;
  return {
    get bytesDone() {
      return whole.bytesDone - before;
    },
    set bytesDone(bytes) {
      whole.bytesDone = before + bytes;
    },
    get bytesTotal() {
      return total;
    },
    set bytesTotal(bytes) {
      // The first size of the file is a part of the known total. A file that changes meanwhile has another size.
      if (bytes !== undefined && own !== undefined) whole.bytesTotal = total += bytes - own;
      own = bytes;
    },
    get receivedBytes() {
      return whole.receivedBytes;
    },
    set receivedBytes(bytes) {
      whole.receivedBytes = bytes;
    },
    get stalls() {
      return whole.stalls;
    },
    set stalls(count) {
      whole.stalls = count;
    },
    get trouble() {
      return whole.trouble;
    },
    set trouble(message) {
      whole.trouble = message;
    },
  };
}

/** The counters of a download, and when bytes came last, by `performance.now()`. */
export class WatchedProgress implements DownloadProgress {
  readonly speed = new Speed();
  bytesDone = 0;
  bytesTotal: number | undefined;
  stalls = 0;
  trouble: string | undefined;
  #receivedBytes = 0;
  #movedAt: number;

  /** `movedAt`: that of an attempt before it, which has failed. */
  constructor(movedAt = performance.now()) {
    this.#movedAt = movedAt;
  }

  get movedAt(): number {
    return this.#movedAt;
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  set receivedBytes(bytes: number) {
    if (bytes === this.#receivedBytes) return;
    this.#movedAt = performance.now();
    this.trouble = undefined;
    this.#receivedBytes = bytes;
  }
}

const windowMs = 5000;

/** Bytes a second over the last few seconds. */
export class Speed {
  readonly #samples: { readonly at: number; readonly bytes: number }[] = [];

  /** Takes a sample. Returns the speed since the oldest sample of the period; undefined for the first sample. */
  of(bytes: number, now = performance.now()): number | undefined {
    const last = this.#samples.at(-1);
    if (last === undefined || now - last.at >= 250) this.#samples.push({ at: now, bytes });
    while ((this.#samples[1]?.at ?? now) < now - windowMs) this.#samples.shift();
    const [first] = this.#samples;
    if (first === undefined || now - first.at < 250) return undefined;
    return Math.max(0, Math.round(((bytes - first.bytes) * 1000) / (now - first.at)));
  }
}

/** The progress of one model, with its speed over the last seconds. */
export interface PullProgress extends DownloadProgress {
  readonly speed: Speed;
}

/** How many bytes were received. */
export interface PullAmount {
  readonly bytesDone: number;
  readonly bytesTotal?: number;
  readonly bytesPerSecond?: number;
}

export function amountOf({ bytesDone, bytesTotal, receivedBytes, speed }: PullProgress): PullAmount {
  const bytesPerSecond = speed.of(receivedBytes);
  return {
    bytesDone,
    ...(bytesTotal === undefined ? {} : { bytesTotal }),
    ...(bytesPerSecond === undefined ? {} : { bytesPerSecond }),
  };
}
