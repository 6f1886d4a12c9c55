"""The configurations that a release reads without code of the checkpoint. Made by scripts/config_types.py.

Each is a ``model_type``, or the class of a model whose configuration has none. Source: ``_CONFIG_REGISTRY`` of
``transformers_utils/config.py`` in the wheels of vLLM, and ``CONFIG_MAPPING_NAMES`` of the oldest Transformers that
each of them admits. What 0.8.0 has may be older. Each release is compared with the one before it.
"""

from __future__ import annotations

ADDED_KINDS = """\
0.8.0: NVLM_D RefinedWeb RefinedWebModel albert align altclip aria aria_text audio-spectrogram-transformer
    autoformer bamba bark bart beit bert bert-generation big_bird bigbird_pegasus biogpt bit blenderbot
    blenderbot-small blip blip-2 bloom bridgetower bros camembert canine chameleon chatglm chinese_clip
    chinese_clip_vision_model clap clip clip_text_model clip_vision_model clipseg clvp code_llama codegen cohere
    cohere2 colpali conditional_detr convbert convnext convnextv2 cpmant ctrl cvt dac data2vec-audio
    data2vec-text data2vec-vision dbrx deberta deberta-v2 decision_transformer deepseek_vl_v2 deformable_detr
    deit depth_anything deta detr diffllama dinat dinov2 dinov2_with_registers distilbert donut-swin dpr dpt
    eagle efficientformer efficientnet electra emu3 encodec encoder-decoder ernie ernie_m esm exaone falcon
    falcon_mamba fastspeech2_conformer flaubert flava fnet focalnet fsmt funnel fuyu gemma gemma2 git glm glpn
    gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gptj gptsan-japanese granite granitemoe
    graphormer grounding-dino groupvit h2ovl_chat hiera hubert ibert idefics idefics2 idefics3 idefics3_vision
    ijepa imagegpt informer instructblip instructblipvideo internvl_chat jais jamba jetmoe jukebox kosmos-2
    layoutlm layoutlmv2 layoutlmv3 led levit lilt llama llava llava_next llava_next_video llava_onevision
    longformer longt5 luke lxmert m2m_100 mamba mamba2 marian markuplm mask2former maskformer maskformer-swin
    mbart mctct medusa mega megatron-bert mgp-str mimi mistral mixtral mllama mlp_speculator mobilebert
    mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 modernbert moonshine moshi mpnet mpt mra mt5 musicgen
    musicgen_melody mvp nat nemotron nezha nllb-moe nougat nystromformer olmo olmo2 olmoe omdet-turbo oneformer
    open-llama openai-gpt opt owlv2 owlvit paligemma patchtsmixer patchtst pegasus pegasus_x perceiver persimmon
    phi phi3 phimoe pix2struct pixtral plbart poolformer pop2piano prophetnet pvt pvt_v2 qdqbert qwen2
    qwen2_audio qwen2_audio_encoder qwen2_moe qwen2_vl rag realm recurrent_gemma reformer regnet rembert resnet
    retribert roberta roberta-prelayernorm roc_bert roformer rt_detr rt_detr_resnet rwkv sam seamless_m4t
    seamless_m4t_v2 segformer seggpt sew sew-d siglip siglip_vision_model solar speech-encoder-decoder
    speech_to_text speech_to_text_2 speecht5 splinter squeezebert stablelm starcoder2 superpoint swiftformer
    swin swin2sr swinv2 switch_transformers t5 table-transformer tapas telechat textnet time_series_transformer
    timesformer timm_backbone timm_wrapper trajectory_transformer transfo-xl trocr tvlt tvp udop ultravox umt5
    unispeech unispeech-sat univnet upernet van video_llava videomae vilt vipllava vision-encoder-decoder
    vision-text-dual-encoder visual_bert vit vit_hybrid vit_mae vit_msn vitdet vitmatte vitpose vitpose_backbone
    vits vivit wav2vec2 wav2vec2-bert wav2vec2-conformer wavlm whisper xclip xglm xlm xlm-prophetnet xlm-roberta
    xlm-roberta-xl xlnet xmod yolos yoso zamba zoedepth
0.8.3: aya_vision dab-detr deepseek_v3 depth_pro gemma3 gemma3_text got_ocr2 granitemoeshared granitevision
    helium llama4 llama4_text mistral3 phi4_multimodal prompt_depth_anything qwen2_5_vl qwen3 qwen3_moe
    rt_detr_v2 sam_vision_model shieldgemma2 siglip2 skywork_chat smolvlm smolvlm_vision superglue zamba2
0.8.5: kimi_vl
0.9.0: minimax_text_01 minimax_vl_01 ovis
0.10.0: Llama_Nemotron_Nano_VL arcee bitnet blip_2_qformer colqwen2 csm d_fine dia dots1 exaone4 falcon_h1
    gemma3n gemma3n_audio gemma3n_text gemma3n_vision glm4 glm4v glm4v_text granite_speech granitemoehybrid
    hgnet_v2 internvl internvl_vision janus kyutai_speech_to_text lightglue minimax mlcd qwen2_5_omni
    qwen2_5_vl_text qwen2_vl_text sam_hq sam_hq_vision_model smollm3 t5gemma timesfm vjepa2
0.10.1: aimv2 aimv2_vision_model cohere2_vision deepseek_v2 deepseek_vl deepseek_vl_hybrid doge efficientloftr
    eomt ernie4_5 ernie4_5_moe evolla fastspeech2_conformer_with_hifigan glm4_moe gpt_oss lfm2 mm-grounding-dino
    modernbert-decoder perception_encoder perception_lm speculators step3_text step3_vl voxtral voxtral_encoder
    xlstm
0.10.2: midashenglm qwen3_next
0.11.0: deepseek_v32 olmo3
0.11.1: afmoe apertus dinov3_convnext dinov3_vit flex_olmo florence2 glm4v_moe glm4v_moe_text hunyuan_v1_dense
    hunyuan_v1_moe kimi_linear kosmos-2.5 lfm2_moe metaclip_2 ovis2 sam2 sam2_hiera_det_model sam2_video
    sam2_vision_model seed_oss xcodec
0.12.0: hunyuan_vl
0.13.0: bagel tarsier2
0.14.0: isaac
0.15.0: kimi_k25
0.15.1: qwen3_asr step3p5
0.16.0: funaudiochat
0.17.0: colmodernvbert colqwen3 ops_colqwen3 qwen3_5 qwen3_5_moe qwen3_vl_nemotron_embed
0.18.0: kimi_k2 olmo_hybrid
0.20.0: deepseek_v4 fireredlid granite4_vision hy_v3 modernvbert umm
0.21.0: hyperclovax_vlm laguna moondream3 qianfan_ocr
0.22.0: openvla
0.22.1: hyperclovax mellum
0.23.0: cosmos3_omni
0.24.0: audioflamingo3 audioflamingo3_encoder blt chmv2 cohere_asr colmodernvbert cwm diffusion_gemma edgetam
    edgetam_video edgetam_vision_model eomt_dinov3 ernie4_5_vl_moe eurobert exaone_moe fast_vlm gemma4
    gemma4_audio gemma4_text gemma4_vision glm46v glm4_moe_lite glm4v_moe_vision glm4v_vision glm_image
    glm_image_text glm_image_vision glm_image_vqmodel glm_moe_dsa glm_ocr glm_ocr_text glm_ocr_vision glmasr
    glmasr_encoder higgs_audio_v2 higgs_audio_v2_tokenizer jais2 jina_embeddings_v3 lasr_ctc lasr_encoder
    layoutxlm lfm2_vl lighton_ocr longcat_flash lw_detr lw_detr_vit minimax_m2 minimax_m3_mtp minimax_m3_vl
    ministral ministral3 mistral4 mlcd_vision_model moonshine_streaming moonshine_streaming_encoder
    musicflamingo musicflamingo_encoder nanochat nemotron_h nomic_bert olmo3 paddleocr_vl parakeet_ctc
    parakeet_encoder pe_audio pe_audio_encoder pe_audio_video pe_audio_video_encoder pe_video pe_video_encoder
    pi0 pixio pp_chart2table pp_doclayout_v2 pp_doclayout_v3 pp_lcnet pp_lcnet_v3 pp_ocrv5_mobile_det
    pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec qwen3_5_moe_text qwen3_5_text qwen3_omni_moe
    qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text sam3 sam3_tracker sam3_tracker_video sam3_video
    sam3_vision_model sam3_vit_model siglip2_vision_model slanext solar_open t5gemma2 t5gemma2_encoder
    timesfm2_5 uvdoc uvdoc_backbone vaultgemma vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder
    vibevoice_acoustic_tokenizer_encoder vibevoice_asr video_llama_3 video_llama_3_vision videomt
    voxtral_realtime voxtral_realtime_encoder voxtral_realtime_text youtu
0.25.0: moss_transcribe_diarize unlimited-ocr
0.26.0: arctic axk1 cosmos3_edge inkling_mm_model inkling_model
0.27.0: k3_dspark kimi_k3
0.28.0: dots3_note muse_glimmer muse_glimmer_assistant muse_glimmer_text muse_glimmer_vision
0.29.0: EvollaModel aimv2_text_model align_text_model align_vision_model altclip_text_model altclip_vision_model
    blip_2_vision_model blip_text_model blip_vision_model blt_global_transformer blt_local_decoder
    blt_local_encoder blt_patcher bridgetower_text_model bridgetower_vision_model chameleon_vqgan
    chinese_clip_text_model clap_audio_model clap_text_model clipseg_text_model clipseg_vision_model
    clvp_decoder clvp_encoder cohere2_moe csm_depth_decoder_model deepseek_ocr2 deepseek_ocr2_encoder
    deepseek_ocr2_sam_vision_model deepseek_ocr2_text deepseek_ocr2_vision deimv2 dia_decoder dia_encoder
    emu3_text_model emu3_vqgan ernie4_5_vl_moe_text ernie4_5_vl_moe_vision exaone4_5 exaone4_5_vision
    fastspeech2_conformer_hifigan flava_image_model flava_multimodal_model flava_text_model florence_vision
    gemma4_assistant gemma4_unified gemma4_unified_assistant gemma4_unified_audio gemma4_unified_text
    gemma4_unified_vision git_vision_model glmga granite4_vision_text granite_speech_encoder granite_speech_plus
    granite_speech_plus_encoder groupvit_text_model groupvit_vision_model hrm_text hy_v4 idefics2_perceiver
    idefics2_vision idefics_perciever idefics_vision instructblip_qformer instructblip_vision_model
    instructblipvideo_qformer instructblipvideo_vision_model janus_vision_model janus_vqgan
    kosmos_2_5_text_model kosmos_2_5_vision_model kosmos_2_text_model kosmos_2_vision_model llama4_vision_model
    metaclip_2_text_model metaclip_2_vision_model minicpmv4_6 minicpmv4_6_vision mllama_text_model
    mllama_vision_model moshi_depth musicgen_decoder musicgen_melody_decoder openai_privacy_filter
    owlv2_text_model owlv2_vision_model owlvit_text_model owlvit_vision_model paddleocr_vl_text
    paddleocr_vl_vision parakeet_tdt phi4_multimodal_audio phi4_multimodal_vision pix2struct_text_model
    pix2struct_vision_model pp_formulanet pp_lcnet_v4 pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec
    pp_ocrv6_tiny_rec qianfan_ocr_vision qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan qwen2_5_omni_dit
    qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_omni_thinker qwen2_5_omni_token2wav
    qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen2_vl_vision qwen3_5_moe_vision qwen3_5_vision
    qwen3_omni_moe_audio_encoder qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text
    qwen3_omni_moe_text qwen3_omni_moe_thinker qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision
    qwen4_exp qwen4_exp_text rf_detr rf_detr_dinov2 sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder
    sam3_lite_text sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder
    sam3_lite_text_mask_decoder sam3_lite_text_text_model sam3_mask_decoder sapiens2 sapiens2_head
    siglip2_text_model siglip_text_model slanet speecht5_hifigan t5_gemma_module t5gemma2_decoder t5gemma2_text
    xclip_text_model xclip_vision_model
0.30.0: bailing_moe_v3_vl deepseek_v41 glm5_next glm5_next_text glm5_next_vision
0.32.0: LongcatFlashForCausalLM LongcatFlashNgramForCausalLM axk2 cohere_compass cohere_compass_text
    cohere_compass_vision cosmos3_edge_text cosmos3_edge_vision diffusion_gemma_text esmc esmfold2
    granite_speech5_ctc granite_speech5_encoder granite_swa granitemoe_swa hunyuan_vl hunyuan_vl_text
    hunyuan_vl_vision inkling_audio inkling_text inkling_vision kimi_k25_vision mimo_v2_flash minicpm3
    minimax_m3_vl_text minimax_m3_vl_vision nemotron3_5_asr nemotron_asr_streaming
    nemotron_asr_streaming_encoder parakeet_rnnt qwen3_asr_encoder qwen4_exp_vision radio step3p5_vision step3p7
    tipsv2 tipsv2_dpt tipsv2_text_model tipsv2_vision_model unlimited_ocr videoprism videoprism_text_model
    videoprism_vision_model xcodec2 zaya
0.33.0: alpamayo2_super beam dory flint muse_spark muse_spark_audio muse_spark_dspark muse_spark_text
    muse_spark_vision musespark1x_text step5 step5_vl ultravbert
"""
"""The kinds of configurations that each release adds."""

REMOVED_KINDS = """\
0.9.2: h2ovl_chat internvl_chat
0.10.1: NVLM_D exaone minimax_text_01 minimax_vl_01 skywork_chat solar telechat
0.11.1: Llama_Nemotron_Nano_VL
0.19.0: olmo3
0.20.0: colmodernvbert
0.23.0: jais
0.24.0: deta efficientformer ernie_m gptsan-japanese graphormer jukebox mctct mega nat nezha open-llama
    perception_encoder qdqbert realm retribert speech_to_text_2 trajectory_transformer transfo-xl tvlt van
    vit_hybrid xlm-prophetnet
0.25.0: tarsier2
0.29.0: arctic code_llama fireredlid granitevision hunyuan_vl hyperclovax_vlm musicflamingo_encoder umm
0.33.0: medusa mlp_speculator
"""
"""The kinds of configurations that each release no longer has."""

LATER_KINDS = """\
apertus1p5 apertus1p5_text apertus1p5_vision_tokenizer bailing_hybrid canary canary_decoder
    dots3_note_audio_encoder dots3_note_text dots3_note_vision_encoder edgetam_mask_decoder
    edgetam_prompt_encoder edgetam_video_mask_decoder edgetam_video_prompt_encoder embedding_gemma2
    embedding_gemma2_text flava_image_codebook fun_asr_nano fun_asr_nano_encoder got_ocr2_vision
    gradium_phonon_tts granite_docling granite_docling_text granite_docling_vision gte hy_v4_vl hy_v4_vl_text
    hy_v4_vl_vision hyperclovax_vision_v2 inkling2 inkling2_loop inkling2_loop_text inkling2_text
    inkling2_vision internlm3 iquestcoder jev kolibri1 lara_mini lfm3 lfm3_vl lfm3_vl_vision mimi_decoder
    mimi_encoder minicpm_ocr minicpm_ocr_vision minicpmv4_7 minicpmv4_7_vision mistral_large4
    mistral_large4_text molmo2 molmo2_adapter molmo2_text molmo2_vision moss_transcribe_diarize_audio
    nemo_speechlm nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_audio
    nemotron3_5_transcribe_word_timestamp nemotron3_diarization nemotron3_diarization_audio nemotron_h_omni
    neomme neucodec omniasr omniasr_audio omniasr_ctc ovis2_vision pocket_tts pocket_tts_audio_tokenizer
    pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder pp_chart2table_vision pp_doclayout_v4
    pp_formulanet_text pp_formulanet_vision sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder
    sam2_video_prompt_encoder sam3_tracker_mask_decoder sam3_tracker_prompt_encoder
    sam3_tracker_video_mask_decoder sam3_tracker_video_prompt_encoder sam_hq_mask_decoder sam_hq_prompt_encoder
    sam_mask_decoder sam_prompt_encoder sarvam_mla sarvam_moe slanext_vision ultrabert
    unlimited_ocr_sam_vision_model unlimited_ocr_text unlimited_ocr_vision unlimited_ocr_vision_encoder
    vibevoice vibevoice_diffusion wavtokenizer wavtokenizer_encoder
"""
"""The kinds that Transformers 5.24.0 reads, and no release above for sure."""
