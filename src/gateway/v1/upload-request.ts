import { ApiError } from "../../api/errors.ts";
import { transcriptionAnswers } from "../audio/transcription-answer.ts";
import { asksForEvents, eventsOf } from "../audio/transcription-stream.ts";
import type { Transcription } from "../audio/transcription.ts";
import { sendUpload } from "../audio/upload-exchange.ts";
import type { KnownSlot } from "../index.ts";
import type { AnswerFormat, AnswerTranslation } from "../relay/answer-format.ts";
import type { UpstreamModel } from "../upstreams/catalog.ts";
import type { Leg, ProviderLeg, V1Request } from "./route.ts";

export type UploadPath = "/v1/audio/transcriptions" | "/v1/audio/translations";

/** Of engines that stream what they hear; whisper.cpp does not. */
const end = /"transcript\.text\.done"|^data: ?\[DONE\]/m;
/** How an engine answers a path that it does not have. */
const absent: readonly number[] = [404, 405, 501];

/** An upload goes on while it waits: it tells when it breaks. */
export class UploadRequest implements V1Request {
  readonly #path: UploadPath;
  readonly #upload: Transcription;
  readonly isStream = false;
  readonly body = undefined;

  constructor(path: UploadPath, upload: Transcription) {
    this.#path = path;
    this.#upload = upload;
  }

  get model(): string {
    return this.#upload.model;
  }

  forSlot(slot: KnownSlot): Leg {
    const served = slot.status?.model.served ?? this.model;
    return {
      capability: "transcription",
      format: this.#format(`slot ${slot.name}`),
      served,
      bytes: 0,
      // Until the engine takes the connection nothing is used up.
      send: ({ endpoint, requestId, timeouts }, events) =>
        sendUpload(
          { endpoint, path: this.#path, requestId, timeouts, forward: () => this.#upload.forward(served) },
          events,
        ),
    };
  }

  forProvider({ upstream, providerModel }: UpstreamModel): ProviderLeg {
    return {
      capability: "transcription",
      path: this.#path,
      accept: "*/*",
      body: () => this.#upload.forward(providerModel),
      format: this.#format(`upstream ${upstream}`),
    };
  }

  onBroken(listener: (failure: ApiError) => void): void {
    const { broken } = this.#upload;
    const tell = (): void => {
      listener(
        broken.reason instanceof ApiError
          ? broken.reason
          : new ApiError("dispatch.invalid_request", { message: "the upload broke off" }),
      );
    };
    if (broken.aborted) tell();
    else broken.addEventListener("abort", tell, { once: true });
  }

  discard(): void {
    void this.#upload.discard();
  }

  #format(label: string): AnswerFormat {
    return { endMark: end, translation: new UploadAnswers(this.#path, this.#upload.fields, label) };
  }
}

/** Whether events were asked for is known with the last field: when the engine answers, all of them have come. */
class UploadAnswers implements AnswerTranslation {
  readonly #path: UploadPath;
  readonly #fields: ReadonlyMap<string, string>;
  readonly #label: string;

  constructor(path: UploadPath, fields: ReadonlyMap<string, string>, label: string) {
    this.#path = path;
    this.#fields = fields;
    this.#label = label;
  }

  get contentType(): string | undefined {
    return asksForEvents(this.#fields) ? "text/event-stream" : undefined;
  }

  answer(body: Buffer): Buffer {
    const whole = transcriptionAnswers.answer(body);
    return asksForEvents(this.#fields) ? eventsOf(whole) : whole;
  }

  refusal(status: number, body: Buffer): ApiError | undefined {
    const isAbsent = absent.includes(status) && !/model/i.test(body.toString("latin1"));
    if (this.#path === "/v1/audio/translations" && isAbsent) {
      const message = `${this.#label} has no ${this.#path}: it only writes down what is said`;
      return new ApiError("system.not_implemented", { message });
    }
    return transcriptionAnswers.refusal?.(status, body);
  }
}
