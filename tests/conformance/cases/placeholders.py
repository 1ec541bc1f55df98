name = '{{fileBasenameNoExtension}}'
work_dir = './work_dirs/{{ fileBasenameNoExtension }}/{{fileBasename}}'
ext = '{{fileExtname}}'
env = '{{$EXP_CASE_NOT_SET:some/default}}'
quoted = {{'$EXP_CASE_NOT_SET:9'}}
braces = '{{not a placeholder}}'
d = dict(a='{{$EXP_CASE_NOT_SET:x}}', b=['{{fileBasenameNoExtension}}'])
