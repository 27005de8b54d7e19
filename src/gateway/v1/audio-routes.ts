import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { ApiError } from "../../api/errors.ts";
import type { Exchange, ExchangeEvents } from "../../lib/http1/client.ts";
import { bearerLine } from "../admission/availability.ts";
import type { BufferBudget } from "../admission/budget.ts";
import { speechAnswers, speechRequest, voicesAnswers } from "../audio/speech.ts";
import { transcriptionAnswers } from "../audio/transcription-answer.ts";
import { openTranscription, type Transcription } from "../audio/transcription.ts";
import { sendUpload } from "../audio/upload-exchange.ts";
import type { KnownSlot } from "../index.ts";
import { plainErrors } from "../relay/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import { jsonRoute } from "./json-route.ts";
import type { UpstreamModel } from "../upstreams/catalog.ts";
import type { Destination, Leg, ProviderLeg, V1Request, V1Route } from "./route.ts";

/** The routes that take or make sound. `stateDir` has room for uploads that wait, as far as `spooled` goes. */
export function audioRoutes(stateDir: string, spooled: BufferBudget): readonly V1Route[] {
  return [
    jsonRoute({
      path: "/v1/audio/speech",
      summary: "A text spoken",
      hasStreams: false,
      gives: "audio/mpeg",
      target: ({ isProvider }) => ({
        capability: "speech",
        enginePath: "/v1/audio/speech",
        accept: "*/*",
        endMark: speechEnd,
        // What a provider takes, and does where something is left out, is its own.
        translation: { ...speechAnswers, request: (body) => (isProvider ? body : speechRequest(body).body) },
      }),
    }),
    {
      method: "POST",
      path: "/v1/audio/transcriptions",
      about: { summary: "What is said in a recording", takes: "multipart/form-data", gives: "application/json" },
      spellings: [],
      errors: plainErrors,
      read: async (request, { bodyBytes, charge }) => {
        const spoolDir = join(stateDir, "spool");
        const limits = { bodyLimitBytes: bodyBytes, charge, spooled, spoolDir };
        return new TranscriptionRequest(await openTranscription(request, limits));
      },
    },
    {
      method: "GET",
      path: "/v1/audio/voices",
      about: { summary: "The voices that speech can have", gives: "application/json" },
      spellings: [],
      errors: plainErrors,
      read: (request) => Promise.resolve(new VoicesRequest(modelOf(request))),
    },
  ];
}

/** Of providers that send speech as events. */
const speechEnd = /"speech\.audio\.done"/;
/** Of engines that stream what they hear; whisper.cpp does not. */
const transcriptionEnd = /"transcript\.text\.done"/;
const transcriptionFormat: AnswerFormat = { endMark: transcriptionEnd, translation: transcriptionAnswers };
const voicesFormat: AnswerFormat = { translation: voicesAnswers };

/** An upload goes on while it waits: it tells when it breaks. */
class TranscriptionRequest implements V1Request {
  readonly #upload: Transcription;
  readonly isStream = false;
  readonly body = undefined;

  constructor(upload: Transcription) {
    this.#upload = upload;
  }

  get model(): string {
    return this.#upload.model;
  }

  forSlot(slot: KnownSlot): Leg {
    const served = slot.status?.model.served ?? this.model;
    return {
      capability: "transcription",
      format: transcriptionFormat,
      served,
      bytes: 0,
      // Until the engine takes the connection nothing is used up.
      send: ({ endpoint, requestId, timeouts }, events) =>
        sendUpload(
          {
            endpoint,
            path: "/v1/audio/transcriptions",
            requestId,
            timeouts,
            forward: () => this.#upload.forward(served),
          },
          events,
        ),
    };
  }

  forProvider({ providerModel }: UpstreamModel): ProviderLeg {
    return {
      capability: "transcription",
      path: "/v1/audio/transcriptions",
      accept: "*/*",
      body: () => this.#upload.forward(providerModel),
      format: transcriptionFormat,
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
}

class VoicesRequest implements V1Request {
  readonly model: string;
  readonly isStream = false;
  readonly body = undefined;

  constructor(model: string) {
    this.model = model;
  }

  forSlot(slot: KnownSlot): Leg {
    return {
      capability: "speech",
      format: voicesFormat,
      served: slot.status?.model.served ?? this.model,
      bytes: 0,
      send: getVoices,
    };
  }

  /** A provider with several models may have voices for each. */
  forProvider({ providerModel }: UpstreamModel): ProviderLeg {
    return {
      capability: "speech",
      path: `/v1/audio/voices?model=${encodeURIComponent(providerModel)}`,
      accept: "application/json",
      format: voicesFormat,
    };
  }
}

function getVoices({ endpoint, pool, requestId, timeouts }: Destination, events: ExchangeEvents): Exchange {
  const head =
    `GET /v1/audio/voices HTTP/1.1\r\nhost: ${endpoint.host}:${endpoint.port}\r\n` +
    `x-request-id: ${requestId}\r\naccept: application/json\r\n${bearerLine(endpoint)}\r\n`;
  return pool.request(head, [], timeouts, events);
}

/** `?model=`, else the slot for speech. */
function modelOf(request: IncomingMessage): string {
  const { url = "/" } = request;
  // No URL is parsed: in the absolute form a client may write a host that is none.
  const model = new URLSearchParams(url.slice(url.indexOf("?") + 1 || url.length)).get("model");
  return model === null || model === "" ? "tts" : model;
}
