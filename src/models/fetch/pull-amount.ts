import type { DownloadProgress, Speed } from "./progress.ts";

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
